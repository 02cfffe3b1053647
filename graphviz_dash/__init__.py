"""Profile CUDA graphs: eager against graphed runs, the graph as a DAG, timeline, Perfetto."""

__version__ = "0.2.0"
