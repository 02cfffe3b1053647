"""Collectors: run on a GPU machine, write run bundles. Need torch; graphviz_dash has none of it.

In a program of one's own: ``with collectors.record("runs/train"): ...``, ``collectors.step()``,
``with collectors.label("decode", real=5, batch=8): ...``; and ``collectors.parallel_graph(step)``,
a step captured with only the dependencies that its data needs.
"""

from collectors.program.parallel import parallel_graph
from collectors.program.session import label, record, step

__all__ = ["label", "parallel_graph", "record", "step"]
