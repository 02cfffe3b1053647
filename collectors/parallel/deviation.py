"""Test whether replays deviate more from an eager step than another eager step does.

Nondeterministic operators, such as atomic additions, make two eager steps differ by rounding. Near
a threshold, such as a ReLU's, rounding rarely changes a whole value. The largest difference is
therefore as likely among the replays as among the eager steps, and does not show that replays are
wrong.

If replays compute the same as eager steps, all differences of a tensor have one distribution. Any
order of them is equally likely, which gives the probability of this many replays beyond all eager
differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

SIGNIFICANCE: Final = 0.01
"""Probability of refusing a correct graph by chance, over all tensors of a step."""

GROSS_DIFFERENCE: Final = 0.02
"""Difference relative to the tensor's largest value that rounding does not cause. A single replay
with it is wrong."""

_TOLERANCE_FACTOR: Final = 2.0
"""Allowed difference of a replay, relative to the largest one of two eager steps."""


@dataclass
class TensorDeviations:
    """Differences of one tensor, relative to its largest value."""

    eager: list[float] = field(default_factory=list)
    """Differences of two eager steps, one per compared pair."""
    replays: dict[int, list[float]] = field(default_factory=dict)
    """Differences of replays from an eager step, by the kind of replay."""

    @property
    def largest_eager(self) -> float:
        """Largest difference of two eager steps."""
        return max(self.eager, default=0.0)

    @property
    def largest_replay(self) -> float:
        """Largest difference of a replay."""
        return max((value for group in self.replays.values() for value in group), default=0.0)

    def compute_probability(self) -> float:
        """Compute the probability that replays of a kind deviate this often by chance."""
        limit = _TOLERANCE_FACTOR * self.largest_eager
        groups = [
            (len(values), sum(value > limit for value in values))
            for values in self.replays.values()
        ]
        pooled = sum(count for count, _ in groups), sum(beyond for _, beyond in groups)
        least = min(
            compute_exceedance(len(self.eager), count, beyond)
            for count, beyond in (*groups, pooled)
        )
        return min(1.0, least * (len(groups) + 1))


def compute_exceedance(controls: int, count: int, beyond: int) -> float:
    """Compute the probability that at least ``beyond`` of ``count`` values are above all of
    ``controls`` values, if all have one distribution."""
    return prod((count - at) / (controls + count - at) for at in range(beyond))


def find_wrong_tensors(
    deviations: Mapping[int, TensorDeviations], writers: Mapping[int, int]
) -> Sequence[int]:
    """Find the tensors that replays compute differently from eager steps.

    ``writers`` is the first operator that writes each tensor. Tensors written before any
    nondeterministic operator must be equal.
    """
    varying = [writers[number] for number, tensor in deviations.items() if tensor.largest_eager]
    first_varying = min(varying, default=None)
    allowed = SIGNIFICANCE / max(1, len(deviations))
    return [
        number
        for number, tensor in deviations.items()
        if _is_wrong(
            tensor, allowed, is_exact=first_varying is None or writers[number] < first_varying
        )
    ]


def _is_wrong(tensor: TensorDeviations, allowed: float, *, is_exact: bool) -> bool:
    difference = tensor.largest_replay
    if difference <= _TOLERANCE_FACTOR * tensor.largest_eager:
        return False
    return is_exact or difference > GROSS_DIFFERENCE or tensor.compute_probability() <= allowed
