"""Timeline lane of a compiled step: purpose and cause of each period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.features.torch_compile.analysis.step_regions import StepRegion
from graphviz_dash.features.torch_compile.narrative import get_cause_location, get_cause_title

STEP_PARTS: Final = tuple(StepPart)


class CompiledStep(Struct, frozen=True):
    """Periods of a step; arrays of shape (periods,), ascending and without gaps."""

    start: Ints
    """Start in ns of the trace."""
    end: Ints
    """End in ns of the trace."""
    code: Ints
    """Index into ``texts``."""
    texts: tuple[tuple[str, int], ...]
    """Purpose with its cause, and the index in STEP_PARTS."""


def build_compiled_step(regions: Sequence[StepRegion]) -> CompiledStep:
    """Build the lane data of a step's ``regions``."""
    texts: dict[tuple[str, int], int] = {}
    codes = [texts.setdefault(_format_region(region), len(texts)) for region in regions]
    return CompiledStep(
        start=np.array([region.span.start for region in regions], dtype=np.int64),
        end=np.array([region.span.end for region in regions], dtype=np.int64),
        code=np.array(codes, dtype=np.int64),
        texts=tuple(texts),
    )


def _format_region(region: StepRegion) -> tuple[str, int]:
    stretch, cause = region.span, region.cause
    text = stretch.part.value
    if cause is not None:
        text = f"{text}: {get_cause_location(cause) or get_cause_title(cause)}"
    elif stretch.frame is not None:
        text = f"{text}, {stretch.frame}"
    return text, STEP_PARTS.index(stretch.part)
