"""Time distribution within a step, and attribution of the difference between two runs."""
