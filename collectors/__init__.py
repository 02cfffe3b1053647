"""Collectors run on a GPU machine and write run bundles. They need torch.

In your own program: ``with collectors.record("runs/train"): ...``, ``collectors.step()``, ``with
collectors.label("decode", real=5, batch=8): ...``; ``collectors.parallel_graph(step)`` to capture a
step with only the dependencies of its data; ``collectors.trace_handler("runs/x")`` for
torch.profiler; callbacks for trainers; and ``collectors.check_replays(step)`` to compare replays
with eager steps.
"""

from collectors.program.callbacks import lightning_callback, trainer_callback
from collectors.program.parallel import parallel_graph
from collectors.program.session import label, record, step
from collectors.program.trace_handler import trace_handler
from collectors.replays.session import check_replays

__all__ = [
    "check_replays",
    "label",
    "lightning_callback",
    "parallel_graph",
    "record",
    "step",
    "trace_handler",
    "trainer_callback",
]
