"""Generated programs with known pairs of kernels."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.step_comparison.pairing import NOTHING, WorkSequence


class Kernel(Struct, frozen=True):
    """Work; equal ``ident`` means the same work."""

    ident: int
    op: int
    name: int
    shape: int
    branch: int = 0


@dataclass
class Program:
    """``eager`` in the order of issue, ``graph`` with its edges, and the true pairs (places)."""

    eager: list[Kernel] = field(default_factory=list)
    graph: list[Kernel] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)

    @property
    def truth(self) -> set[tuple[int, int]]:
        """Places of the same work in both."""
        place = {one.ident: at for at, one in enumerate(self.eager)}
        return {(place[one.ident], at) for at, one in enumerate(self.graph) if one.ident in place}

    def sides(self, by_lane: bool = False) -> tuple[WorkSequence, WorkSequence]:
        lanes = np.array(self.lanes if by_lane else [0] * len(self.eager), dtype=np.int64)
        edges = np.array(self.edges, dtype=np.int64).reshape(-1, 2)
        key, op, name = _codes(self.eager)
        other, other_op, other_name = _codes(self.graph)
        return WorkSequence.from_lanes(key, op, name, lanes), WorkSequence(
            other, other_op, other_name, edges
        )


def _codes(items: list[Kernel]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    keys = [one.op * 1_000_000 + one.name * 1000 + one.shape for one in items]
    return (
        np.array(keys, dtype=np.int64),
        np.array([one.op for one in items], dtype=np.int64),
        np.array([one.name for one in items], dtype=np.int64),
    )


def program(
    seed: int,
    *,
    layers: int = 12,
    differ: float = 0.1,
    branches: int = 3,
    shuffled: bool = True,
) -> Program:
    """A model of repeated layers, some with parallel branches. About ``differ`` of its kernels are
    changed, new or lost in the graph. ``shuffled``: branches are issued in another order in the
    graph."""
    dice = random.Random(seed)
    block = [
        (dice.randrange(8), dice.randrange(20), dice.randrange(4))
        for _ in range(dice.randrange(6, 25))
    ]
    forks = [
        [
            [(8 + dice.randrange(30), dice.randrange(20), dice.randrange(9)) for _ in range(length)]
            for length in (dice.randrange(3, 12) for _ in range(branches))
        ]
        for _ in range(3)
    ]
    found = Program()
    number = 0
    tail: list[int] = []

    def chain(
        content: list[tuple[int, int, int]], after: list[int], lane: int
    ) -> tuple[list[Kernel], list[Kernel]]:
        nonlocal number
        eager, graph = [], []
        for op, name, shape in content:
            number += 1
            one = Kernel(number, op, name, shape, lane)
            fate = dice.random() / differ if differ else 1.0
            eager.append(one)
            if fate < 0.4:
                graph.append(Kernel(number, op, 100 + dice.randrange(20), shape, lane))
            elif fate < 0.7:
                number += 1
                graph += [one, Kernel(number, NOTHING, 200 + dice.randrange(3), 0, lane)]
            elif fate >= 1.0:
                graph.append(one)
        return eager, graph

    def put(graph: list[Kernel], after: list[int]) -> list[int]:
        for one in graph:
            place = len(found.graph)
            found.graph.append(one)
            found.edges += [(before, place) for before in after]
            after = [place]
        return after

    for layer in range(layers):
        eager, graph = chain(block, tail, 0)
        found.eager += eager
        found.lanes += [0] * len(eager)
        tail = put(graph, tail)
        if branches and layer % 3 == 2:
            parts = [chain(one, tail, 1 + lane) for lane, one in enumerate(forks[layer % 2])]
            for eager, _ in parts:
                found.eager += eager
                found.lanes += [one.branch for one in eager]
            order = list(range(len(parts)))
            if shuffled:
                dice.shuffle(order)
            ends: list[int] = []
            for place in order:
                ends += put(parts[place][1], tail)
            tail = sorted(set(ends))
    return found
