"""Run a program's step on several streams: :func:`parallel_graph`. Imports torch on the first
call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from collectors.parallel import MEMORY_FACTOR
from graphviz_dash.errors import MissingRequirementError

if TYPE_CHECKING:
    from collectors.parallel.graph import ParallelGraph

_WARM_UP: Final = 3
"""Steps before the capture: libraries create their handles in them."""


def parallel_graph(
    step: Callable[[], object], memory_factor: float | None = MEMORY_FACTOR
) -> ParallelGraph:
    """Capture ``step`` as a graph that has only the dependencies that its data requires.

    ``replay()`` launches it on the current stream, ``result`` is the return value of the step, and
    ``plan`` describes the plan, its trials and checks. It is never slower than a plain capture: if
    no plan is faster, it is one.

    ``step`` must do the same each time on the same memory. It runs three times to warm up, with
    lasting effect, and then dozens of times for planning and checks. Memory from outside, state of
    custom operators in torch's memory, and torch's random generators are restored. Python objects,
    such as ``.grad``, then refer to the capture.

    Args:
        step: Function of one replay, without arguments.
        memory_factor: Maximum memory relative to a plain capture; 48 MiB are always allowed. None
            for no limit.

    Raises:
        RefusedError: A correct result is not guaranteed. The message contains the reason and, if
            known, the line of the program.
        MissingRequirementError: torch finds no CUDA device.
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
