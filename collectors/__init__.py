"""Collectors: run on a GPU machine, write run bundles. Need torch; graphviz_dash has none of it.

In a program of one's own: ``with collectors.record("runs/train"): ...``, ``collectors.step()``,
``with collectors.label("decode", real=5, batch=8): ...``.
"""

from collectors.program.session import label, record, step

__all__ = ["label", "record", "step"]
