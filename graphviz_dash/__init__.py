"""Profile CUDA graphs and see what they buy: eager against graphed runs, DAG, timeline, Perfetto."""

__version__ = "0.1.0"
