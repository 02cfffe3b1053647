"""A program's own step on several streams: :func:`parallel_graph`. Needs torch when it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from collectors.parallel import MEMORY_FACTOR
from graphviz_dash.errors import MissingRequirementError

if TYPE_CHECKING:
    from collectors.parallel.graph import ParallelGraph

_WARM_UP: Final = 3
"""Steps before the capture: libraries make their handles in them."""


def parallel_graph(
    step: Callable[[], object], memory_factor: float | None = MEMORY_FACTOR
) -> ParallelGraph:
    """Captures ``step`` as a graph that has only the dependencies that its data needs.

    Its ``replay()`` launches it on the current stream, ``result`` is what the step returned, and
    ``plan`` how it was planned, tried and checked. It is never slower than a plain capture: where
    no plan is faster it is one.

    ``step`` does the same each time on the same memory. It is called three times to warm up,
    which counts, and then dozens of times to plan and to check: the memory from outside that it
    changes meanwhile is put back, also what custom operators keep to themselves in torch's
    memory, and so are torch's generators of random numbers. What it leaves in Python objects,
    such as ``.grad``, is then the capture's.

    Args:
        step: what one replay does; takes nothing.
        memory_factor: of the memory of a plain capture, what it may take, and 48 MiB in any case;
            None: as much as it likes.

    Raises:
        RefusedError: it cannot be done without the danger of wrong results; the message says why
            and, where that is known, which line of the program is the cause.
        MissingRequirementError: torch sees no CUDA device.
    """
    import torch

    from collectors.parallel.graph import ParallelGraph
    from collectors.parallel.plan import plan_step

    if not torch.cuda.is_available():
        raise MissingRequirementError("A parallel graph needs a CUDA GPU, and torch sees none.")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(side)
    return ParallelGraph(step, plan_step(step, memory_factor))
