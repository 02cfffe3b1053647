"""Models that programs of evaluation run on a GPU."""
