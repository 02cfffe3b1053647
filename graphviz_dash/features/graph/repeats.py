"""Similarities and differences between the blocks of a repeat, in words."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.errors import printable
from graphviz_dash.features.graph.folding.repeats import (
    BlockVariant,
    LaunchDifference,
    LaunchShape,
    RepeatFacts,
)
from graphviz_dash.units import format_count, format_ns

_MOST_LINES: Final = 8
_MOST_NUMBERS: Final = 6
_MOST_NAMED: Final = 4
"""Maximum number of kernels named in a difference."""

_MOST_WAYS: Final = 3
"""Maximum number of launch shapes listed besides the usual one."""


def times_summary(facts: RepeatFacts) -> str:
    """Format the median, minimum and maximum time of the blocks."""
    times = facts.times[~np.isnan(facts.times)]
    if not len(times):
        return "not timed"
    median = format_ns(float(np.median(times)))
    return f"median {median}, {format_ns(float(times.min()))} to {format_ns(float(times.max()))}"


def block_differences(facts: RepeatFacts) -> list[str]:
    """List the differences between blocks, one line per kind; all text is printable."""
    usual, *others = facts.variants
    if not others and not facts.launches:
        return ["All blocks have the same kernels and launch shapes."]
    lines = []
    if others:
        lines.append(f"{format_count(len(usual.blocks))} blocks have the same kernels.")
        lines += [_variant(variant) for variant in others[:_MOST_LINES]]
        if len(others) > _MOST_LINES:
            lines.append(f"{format_count(len(others) - _MOST_LINES)} other differences.")
    lines += [_launch(difference) for difference in facts.launches[:_MOST_LINES]]
    if len(facts.launches) > _MOST_LINES:
        lines.append(
            f"{format_count(len(facts.launches) - _MOST_LINES)} other nodes have different launch "
            "shapes."
        )
    return lines


def variant_text(variant: BlockVariant) -> str:
    """Describe the difference from most blocks: "2 gemm more; 1 norm less"."""
    parts = []
    for word, kernels in (("more", variant.more), ("less", variant.less)):
        if kernels:
            listed = ", ".join(f"{count} {name}" for name, count in kernels[:_MOST_NAMED])
            others = len(kernels) - _MOST_NAMED
            parts.append(f"{listed}{f' and {others} others' if others > 0 else ''} {word}")
    return "; ".join(parts) or "the same kernels in another order"


def _variant(variant: BlockVariant) -> str:
    numbers = ", ".join(str(block + 1) for block in variant.blocks[:_MOST_NUMBERS])
    more = ", …" if len(variant.blocks) > _MOST_NUMBERS else ""
    return printable(f"{numbers}{more}: {variant_text(variant)}")


def _launch(difference: LaunchDifference) -> str:
    others = "; ".join(
        f"{_shape(shape)} in {format_count(count)}"
        for shape, count in difference.others[:_MOST_WAYS]
    )
    node = f"{difference.name} (node {difference.offset + 1} of each block)"
    return printable(f"{node}: {_shape(difference.usual)}, but {others}")


def _shape(shape: LaunchShape) -> str:
    if shape.bytes is not None:
        return f"{shape.bytes} B"
    grid, block = (" x ".join(map(str, size or "–")) for size in (shape.grid, shape.block))
    return f"grid {grid}, block {block}, {shape.dynamic_shared} B shared"
