"""Record the activity of torch.compile in this process."""
