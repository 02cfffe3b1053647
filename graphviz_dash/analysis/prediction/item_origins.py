"""Operators that launched the work of an eager step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from graphviz_dash.analysis.attribution.origins import NodeOrigin, OriginResolver, select_near

if TYPE_CHECKING:
    from graphviz_dash.analysis.prediction.eager_step import EagerStep
    from graphviz_dash.model.trace import Trace

ItemOrigins: TypeAlias = tuple[NodeOrigin | None, ...]
"""Origin of each item's launch; None if unknown."""

MAX_ITEMS: Final = 5_000
"""Maximum number of items; planning more would need seconds."""

_METHOD: Final = "launching call"


def find_item_origins(trace: Trace, step: EagerStep) -> ItemOrigins:
    """Return the origin of each item's launch.

    None if unknown, and for all items of a step with more than MAX_ITEMS. Near-linear in the
    step's operators.
    """
    if len(step) > MAX_ITEMS or not len(trace.ops):
        return (None,) * len(step)
    typical = step.steps[step.matching[0]]
    is_launched = step.launches >= 0
    origins = OriginResolver(
        select_near(trace, typical.start, typical.end, margin=0), step.launches[is_launched]
    )
    numbers = (is_launched.cumsum() - 1).tolist()
    return tuple(
        origins.get_origin(number, _METHOD, 1.0) if is_known else None
        for number, is_known in zip(numbers, is_launched.tolist(), strict=True)
    )
