"""Programs that are recorded as they are, in the shape of those that people run."""
