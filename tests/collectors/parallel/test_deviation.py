"""Refusal of wrong replays, and of no more correct ones than the significance allows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from collectors.parallel.deviation import (
    SIGNIFICANCE,
    TensorDeviations,
    compute_exceedance,
    find_wrong_tensors,
)

TENSORS = 60
GROUPS = {0: 12, 1: 4, 2: 4, 3: 4}
EAGER = sum(GROUPS.values())
Draw = Callable[[np.random.Generator, int], list[float]]


def draw_noise(random: np.random.Generator, count: int) -> list[float]:
    """Rounding differences of about 1e-6, of which one in twenty flips a value by 1e-3."""
    noise = 1e-6 * random.lognormal(0, 0.5, count)
    flips = np.where(random.random(count) < 0.05, 1e-3 * random.random(count), 0)
    return list((noise + flips).tolist())


def build(seed: int, wrong: dict[int, Draw] | None = None) -> dict[int, TensorDeviations]:
    """Differences of tensors, with those of one of them from ``wrong`` for these kinds."""
    random = np.random.default_rng(seed)
    found = {}
    for number in range(TENSORS):
        tensor = TensorDeviations(draw_noise(random, EAGER))
        for kind, count in GROUPS.items():
            draw = (wrong or {}).get(kind, draw_noise) if number == 7 else draw_noise
            tensor.replays[kind] = draw(random, count)
        found[number] = tensor
    return found


WRITERS = {number: number for number in range(TENSORS)}


def test_equal_steps_are_refused_as_rarely_as_promised() -> None:
    refused = sum(bool(find_wrong_tensors(build(seed), WRITERS)) for seed in range(400))
    # The largest difference alone refuses about every step.
    assert refused <= 3 * SIGNIFICANCE * 400
    largest = sum(
        any(t.largest_replay > 2 * t.largest_eager for t in build(seed).values())
        for seed in range(40)
    )
    assert largest > 20


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(dict.fromkeys(GROUPS, lambda _, n: [3e-3] * n), id="always"),
        pytest.param({0: lambda _, n: [0.5] + [0.0] * (n - 1)}, id="once, by half the value"),
        pytest.param({3: lambda _, n: [float("inf")] + [0.0] * (n - 1)}, id="once, an integer"),
    ],
)
def test_a_wrong_tensor_is_found(wrong: dict[int, Draw]) -> None:
    assert [find_wrong_tensors(build(seed, wrong), WRITERS) for seed in range(20)] == [[7]] * 20


def test_a_delayed_graph_that_is_always_off_is_found_among_few_tensors() -> None:
    tensor = TensorDeviations([1e-6] * EAGER, {kind: [1e-6] * n for kind, n in GROUPS.items()})
    assert find_wrong_tensors({0: tensor}, {0: 0}) == []
    tensor.replays[2] = [1e-4] * 4
    assert find_wrong_tensors({0: tensor}, {0: 0}) == [0]
    tensor.replays[2] = [1e-4, 1e-6, 1e-6, 1e-6]
    assert find_wrong_tensors({0: tensor}, {0: 0}) == []


def test_tensors_without_nondeterministic_predecessors_must_be_equal() -> None:
    exact = TensorDeviations([0.0] * EAGER, {0: [1e-9] + [0.0] * 11})
    noisy = TensorDeviations([1e-6] * EAGER, {0: [1e-6] * 12})
    assert find_wrong_tensors({0: exact}, {0: 0}) == [0]
    assert find_wrong_tensors({0: exact, 1: noisy}, {0: 0, 1: 1}) == [0]
    assert find_wrong_tensors({0: exact, 1: noisy}, {0: 1, 1: 0}) == []


@pytest.mark.parametrize("beyond", range(5))
def test_the_probability_is_that_of_all_orders(beyond: int) -> None:
    controls, count = 5, 4
    orders = list(combinations(range(controls + count), count))
    above = sum(
        sum(place > max(set(range(controls + count)) - set(order)) for place in order) >= beyond
        for order in orders
    )
    assert compute_exceedance(controls, count, beyond) == pytest.approx(above / len(orders))
