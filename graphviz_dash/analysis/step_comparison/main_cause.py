"""Main cause of a step time difference, shared by Compare, Timeline and the report."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from msgspec import Struct

from graphviz_dash.analysis.step_comparison.waterfall import Basis, Cause, Waterfall

MAX_ROUNDED_SHARE: Final = 1.02
"""Largest ratio of a part to the difference that counts as all of it."""
MIN_SHARE_OF_STEP: Final = 0.01
"""Share of the baseline's profiled step below which a part explains nothing."""


class MainCause(Struct, frozen=True):
    """Largest part of a difference with the sign of the whole difference."""

    cause: Cause
    is_saving: bool
    """True if the run is faster because of it."""
    basis: Basis
    share: float | None
    """0 to 1; None if other parts offset it, so that it exceeds the difference."""
    ns: int | None
    """At most the difference; None for profiled parts, which exceed unprofiled ones."""
    offset: Cause | None
    """Largest part with the opposite sign if ``share`` is None."""


def find_main_cause(waterfall: Waterfall, saving_ns: float) -> MainCause | None:
    """Find the main cause of ``saving_ns``, which is negative if the run is slower.

    None if no part explains it, or if the profiled steps differ in the other direction.
    """
    total = waterfall.saved.total
    sign = 1 if saving_ns > 0 else -1
    if not saving_ns or sign * total <= 0:
        return None
    parts = [
        (sign * ns, cause) for cause, ns in waterfall.saved_by_cause if cause is not Cause.REMAINDER
    ]
    largest, cause = max(parts, key=itemgetter(0))
    has_profiled_basis = waterfall.basis is Basis.TRACED
    if largest <= 0 or (has_profiled_basis and largest < MIN_SHARE_OF_STEP * waterfall.before_ns):
        return None
    share = largest / abs(total)
    offsets = share > MAX_ROUNDED_SHARE
    return MainCause(
        cause=cause,
        is_saving=sign > 0,
        basis=waterfall.basis,
        share=None if offsets else min(1.0, share),
        ns=None if offsets or has_profiled_basis or largest > abs(saving_ns) else largest,
        offset=min(parts, key=itemgetter(0))[1] if offsets else None,
    )
