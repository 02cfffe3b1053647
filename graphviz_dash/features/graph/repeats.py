"""What the blocks of a repeat have in common and in what they differ, in words."""

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
"""Kernels that the words for a difference name."""

_MOST_WAYS: Final = 3
"""Ways to launch a node that are told beside the usual one."""


def times_summary(facts: RepeatFacts) -> str:
    """The median, shortest and longest time of the blocks."""
    times = facts.times[~np.isnan(facts.times)]
    if not len(times):
        return "not timed"
    each = format_ns(float(np.median(times)))
    return f"median {each}, {format_ns(float(times.min()))} to {format_ns(float(times.max()))}"


def block_differences(facts: RepeatFacts) -> list[str]:
    """In what the blocks differ, a line for each way; all of it printable."""
    usual, *others = facts.variants
    if not others and not facts.launches:
        return ["All have the same kernels, launched in the same way."]
    lines = []
    if others:
        lines.append(f"{format_count(len(usual.blocks))} have the same kernels.")
        lines += [_variant(variant) for variant in others[:_MOST_LINES]]
        if len(others) > _MOST_LINES:
            lines.append(f"{format_count(len(others) - _MOST_LINES)} other ways to differ.")
    lines += [_launch(difference) for difference in facts.launches[:_MOST_LINES]]
    if len(facts.launches) > _MOST_LINES:
        lines.append(
            f"{format_count(len(facts.launches) - _MOST_LINES)} other nodes differ in launch."
        )
    return lines


def variant_text(variant: BlockVariant) -> str:
    """In what blocks differ from most: "2 gemm more; 1 norm less"."""
    words = []
    for word, kernels in (("more", variant.more), ("less", variant.less)):
        if kernels:
            listed = ", ".join(f"{count} {name}" for name, count in kernels[:_MOST_NAMED])
            others = len(kernels) - _MOST_NAMED
            words.append(f"{listed}{f' and {others} others' if others > 0 else ''} {word}")
    return "; ".join(words) or "the same kernels in another order"


def _variant(variant: BlockVariant) -> str:
    numbers = ", ".join(str(block + 1) for block in variant.blocks[:_MOST_NUMBERS])
    more = ", …" if len(variant.blocks) > _MOST_NUMBERS else ""
    return printable(f"{numbers}{more}: {variant_text(variant)}")


def _launch(difference: LaunchDifference) -> str:
    others = "; ".join(
        f"{_shape(shape)} in {format_count(count)}"
        for shape, count in difference.others[:_MOST_WAYS]
    )
    node = f"{difference.name} (node {difference.offset + 1} of each)"
    return printable(f"{node}: {_shape(difference.usual)}, but {others}")


def _shape(shape: LaunchShape) -> str:
    if shape.bytes is not None:
        return f"{shape.bytes} B"
    grid, block = (" x ".join(map(str, size or "–")) for size in (shape.grid, shape.block))
    return f"grid {grid}, block {block}, {shape.dynamic_shared} B shared"
