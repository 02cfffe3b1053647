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
    """Capture ``step`` as a graph that keeps only the dependencies that its data needs.

    ``replay()`` launches the graph on the current stream. ``result`` holds the return value of the
    step, and ``plan`` the plan with its measurements and checks. The graph is never slower than a
    plain capture, because a plain capture is used if no plan is faster.

    ``step`` must do the same work on the same memory in each call. It runs three times to warm up,
    with lasting effects, and dozens of times to plan and check. Memory that it changes during
    planning is restored, and so are torch's random number generators. Python objects such as
    ``.grad`` refer to the capture afterwards.

    Args:
        step: Work of one replay; a function without arguments.
        memory_factor: Memory limit as a multiple of a plain capture's, but at least 48 MiB; None
            for no limit.

    Raises:
        RefusedError: Results could be wrong. The message gives the reason and, if known, the line.
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
