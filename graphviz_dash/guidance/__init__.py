"""Missing data: which input a page lacks and how to record it."""
