"""An empty package for checks for cuda-python; the fake torch has the content."""
