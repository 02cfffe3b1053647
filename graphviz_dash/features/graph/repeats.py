"""Similarities and differences between the blocks of a repeat, in words."""

from __future__ import annotations

from typing import Final

import numpy as np

from graphviz_dash.errors import escape_control_characters
from graphviz_dash.features.graph.folding.repeats import (
    BlockVariant,
    LaunchDifference,
    LaunchShape,
    RepeatFacts,
)
from graphviz_dash.units import format_count, format_ns

_MAX_LINES: Final = 8
_MAX_NUMBERS: Final = 6
_MAX_KERNELS: Final = 4
"""Maximum number of kernels named in a difference."""

_MAX_SHAPES: Final = 3
"""Maximum number of launch shapes listed besides the usual one."""


def summarize_times(facts: RepeatFacts) -> str:
    """Format the median, minimum and maximum time of the blocks."""
    times = facts.times[~np.isnan(facts.times)]
    if not len(times):
        return "not timed"
    median = format_ns(float(np.median(times)))
    return f"median {median}, {format_ns(float(times.min()))} to {format_ns(float(times.max()))}"


def list_block_differences(facts: RepeatFacts) -> list[str]:
    """List the differences between blocks, one line per kind; all text is printable."""
    usual, *others = facts.variants
    if not others and not facts.launches:
        return ["All blocks have the same kernels and launch shapes."]
    lines = []
    if others:
        lines.append(f"{format_count(len(usual.blocks))} blocks have the same kernels.")
        lines += [_format_variant_line(variant) for variant in others[:_MAX_LINES]]
        if len(others) > _MAX_LINES:
            lines.append(f"{format_count(len(others) - _MAX_LINES)} other differences.")
    lines += [_format_launch_difference(difference) for difference in facts.launches[:_MAX_LINES]]
    if len(facts.launches) > _MAX_LINES:
        lines.append(
            f"{format_count(len(facts.launches) - _MAX_LINES)} other nodes have different launch "
            "shapes."
        )
    return lines


def format_variant(variant: BlockVariant) -> str:
    """Describe the difference from most blocks: "2 gemm more; 1 norm less"."""
    parts = []
    for word, kernels in (("more", variant.added), ("less", variant.missing)):
        if kernels:
            listed = ", ".join(f"{count} {name}" for name, count in kernels[:_MAX_KERNELS])
            others = len(kernels) - _MAX_KERNELS
            parts.append(f"{listed}{f' and {others} others' if others > 0 else ''} {word}")
    return "; ".join(parts) or "the same kernels in another order"


def _format_variant_line(variant: BlockVariant) -> str:
    numbers = ", ".join(str(block + 1) for block in variant.blocks[:_MAX_NUMBERS])
    more = ", …" if len(variant.blocks) > _MAX_NUMBERS else ""
    return escape_control_characters(f"{numbers}{more}: {format_variant(variant)}")


def _format_launch_difference(difference: LaunchDifference) -> str:
    others = "; ".join(
        f"{_format_launch_shape(shape)} in {format_count(count)}"
        for shape, count in difference.others[:_MAX_SHAPES]
    )
    node = f"{difference.name} (node {difference.offset + 1} of each block)"
    return escape_control_characters(
        f"{node}: {_format_launch_shape(difference.usual)}, but {others}"
    )


def _format_launch_shape(shape: LaunchShape) -> str:
    if shape.bytes is not None:
        return f"{shape.bytes} B"
    grid, block = (" x ".join(map(str, size or "–")) for size in (shape.grid, shape.block))
    return f"grid {grid}, block {block}, {shape.dynamic_shared} B shared"
