"""Profile CUDA graphs: compare eager and graphed runs, inspect graphs, timelines and traces."""

__version__ = "0.3.0"
