"""What torch.compile did in this process, taken from torch's own accounts of it."""
