"""What torch.compile made of a step, where the step's time goes, and what mending would save."""
