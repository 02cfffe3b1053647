"""Choose the first wrong tensor among the differences between replays and eager steps.

An operator with equal results in two eager steps must be equal bit by bit in a replay, unless its
library may choose another algorithm for another workspace. Behind such an operator, and behind one
that two eager steps compute differently, a difference counts only above the noise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Final

from graphviz_dash.model.replay_check import TensorDifference, ValueCheck

_TOLERANCE: Final = {"float64": 1e-9, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}
"""Largest relative difference of sums that another algorithm explains."""

_NOISE_FACTOR: Final = 10.0
"""Allowed difference relative to that of two eager steps."""

_LIBRARY_OPERATORS: Final = ("mm", "matmul", "linear", "conv", "attention", "rnn", "lstm", "gru")


def find_first_difference(check: ValueCheck) -> TensorDifference | None:
    """Return the first significant difference, by round, replay and operator, or None."""
    varying = {
        (item.operator, item.tensor.role, item.tensor.position)
        for item in check.differences
        if item.eager_difference
    }
    recorded_operators = {fact.operator for fact in check.facts} | {
        item.reader for item in check.orders
    }
    first_path = min(
        (fact.operator for fact in check.facts if fact.kind.value == "path"), default=None
    )
    for _, group in groupby(check.differences, key=lambda item: (item.round, item.replay)):
        difference = _find_in_replay(check, group, varying, recorded_operators, first_path)
        if difference is not None:
            return difference
    return None


def _find_in_replay(
    check: ValueCheck,
    differences: Iterable[TensorDifference],
    varying: Collection[tuple[int, str, int]],
    recorded_operators: Collection[int],
    first_path: int | None,
) -> TensorDifference | None:
    is_noisy = False
    for item in differences:
        if item.absent or item.operator in recorded_operators:
            return item
        if first_path is not None and item.operator >= first_path:
            return item
        key = (item.operator, item.tensor.role, item.tensor.position)
        is_varying = bool(item.eager_difference) or key in varying
        if item.tensor.role == "output" and not is_varying and not is_noisy:
            if not _is_library_operator(check.operators[item.operator].name):
                return item
        elif item.tensor.role == "input" and not is_varying and not is_noisy:
            return item
        if _is_above_noise(item):
            return item
        is_noisy = True
    return None


def _is_library_operator(name: str) -> bool:
    return any(part in name for part in _LIBRARY_OPERATORS)


def _is_above_noise(item: TensorDifference) -> bool:
    tolerance = _TOLERANCE.get(item.tensor.dtype)
    if tolerance is None or item.relative is None:
        # Integers, or other infinities: noise of a floating-point operator may decide them.
        return not item.eager_difference
    return item.relative > max(tolerance, _NOISE_FACTOR * (item.eager_difference or 0.0))
