"""Collectors run on a GPU machine and write run bundles. They need torch.

In your own program: ``with collectors.record("runs/train"): ...``, ``collectors.step()``, ``with
collectors.label("decode", real=5, batch=8): ...``; and ``collectors.parallel_graph(step)`` to
capture a step with only the dependencies of its data.
"""

from collectors.program.parallel import parallel_graph
from collectors.program.session import label, record, step

__all__ = ["label", "parallel_graph", "record", "step"]
