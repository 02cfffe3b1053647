"""``collectors.check_replays``: compare replays of a step with eager steps, inside a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphviz_dash.model.replay_check import ReplayCheck


def check_replays(
    step: Callable[[], object],
    graph: Any = None,
    *,
    replays: int = 3,
    warmup: int = 3,
    other_work: Callable[[], object] | None = None,
) -> ReplayCheck:
    """Capture ``step`` with hashes and compare its replays with eager steps.

    The step's GPU and pinned memory and torch's random state are restored; Python variables are
    not. ``graphviz_dash.analysis.replay_check.diagnose_replays`` finds the cause.

    Args:
        step: Function without arguments that can run again.
        graph: The program's graph of the step, captured with ``keep_graph=True``. Its nodes are
            compared with those of a new capture, which finds outdated addresses and numbers.
        replays: Replays from the same memory, per round of inputs.
        warmup: Eager steps before the capture.
        other_work: Called before each replay and eager step, such as the replay of another graph.
    """
    from collectors.replays.check import check_step

    return check_step(step, replays=replays, warmup=warmup, other_work=other_work, graph=graph)
