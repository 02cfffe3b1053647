"""Collectors: run on a GPU machine, write run bundles. Need torch; graphviz_dash has none of it.

In a program of one's own: ``with collectors.record("runs/train"): ...``, ``collectors.step()``.
"""

from collectors.program.session import record, step

__all__ = ["record", "step"]
