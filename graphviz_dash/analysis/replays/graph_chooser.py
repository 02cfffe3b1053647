"""Which captured graph each launch of a trace was of: by id, by what its rows look like, by order.

Graphs that look the same (the layers of a model, each captured by itself) are told apart by the id
of the executable graph where the trace has it and the driver's answer says whose it is; else by the
order of launches in a step that the node-id pass saw; else by turns, for graphs are captured in the
order in which a step launches them, and that is sure only as far as the counts fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.replays.matching import GraphMatcher
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass

if TYPE_CHECKING:
    from graphviz_dash.model.trace import Trace

IN_TURN: Final = 0.9
"""Confidence that graphs which look alike were launched in the order of their captures, where each
step launches each of them once."""

LIKE_ENOUGH: Final = 0.5
"""Share of rows and nodes that must look alike for a launch to count as one of a graph."""


class GraphIdentities(Struct, frozen=True):
    """What is known of the graphs besides what they look like.

    ``ids`` are those of the process that the trace is of. ``order`` are the graphs that a step
    launches, in turn, as another process of the same program did; empty: not known.
    """

    ids: tuple[GraphIds, ...] = ()
    order: tuple[str, ...] = ()


NO_IDENTITIES: Final = GraphIdentities()


class GraphLaunch(NamedTuple):
    """A graph launch: the signatures of its rows, the step it lies in (-1: none) and the id of the
    executable graph that its rows show (-1: none)."""

    codes: Ints
    step: int
    exec_id: int


class GraphChoice(NamedTuple):
    """A launch's matcher, a place in the list (-1: no graph looks like it), how sure its graph is,
    0 to 1, and how many ways to run that graph fit as well."""

    matcher: int
    share: float
    ways: int = 1


def launch_order(node_ids: NodeIdPass | None) -> tuple[str, ...]:
    """The graphs that a step of the node-id pass launches, in turn; empty where steps differ or an
    id is of no known graph."""
    if node_ids is None or not node_ids.launch_steps:
        return ()
    name_of = {ident: ids.graph for ids in node_ids.graphs for ident in ids.launched_as}
    graph_of = {row.launch: name_of.get(row.graph) for row in node_ids.rows}
    steps: dict[int, list[str | None]] = {}
    for launch, step in enumerate(node_ids.launch_steps):
        steps.setdefault(step, []).append(graph_of.get(launch))
    first, *others = steps.values()
    if any(other != first for other in others) or None in first:
        return ()
    return tuple(name for name in first if name is not None)


def steps_of(times: Ints, trace: Trace, prefix: str) -> Ints:
    """For each of ``times`` the place of the range named ``prefix...`` that it lies in, or -1."""
    ranges = trace.annotations.filter(trace.annotations["name"].str.starts_with(prefix))
    begins = ranges["ts"].to_numpy().astype(np.int64)
    if not len(begins):
        return np.full(len(times), -1, dtype=np.int64)
    ends = begins + ranges["dur"].to_numpy().astype(np.int64)
    range_index = np.searchsorted(begins, times, "right") - 1
    return np.where((range_index >= 0) & (times <= ends[range_index]), range_index, -1)


class GraphChooser:
    """Chooses for launches. ``roots`` names the graph of each matcher; a graph may have several,
    one for each way in which it can run."""

    def __init__(
        self, matchers: Sequence[GraphMatcher], roots: Sequence[str], identities: GraphIdentities
    ) -> None:
        self._matchers = matchers
        self._roots = roots
        self._identities = identities
        self._named = {ident: ids.graph for ids in identities.ids for ident in ids.launched_as}
        self._likest_of: dict[bytes, tuple[int, ...]] = {}

    def choose(self, launches: Sequence[GraphLaunch]) -> list[GraphChoice]:
        """The choice for each launch of a trace, in the order of time."""
        candidates = [self._candidates(launch) for launch in launches]
        chosen: list[GraphChoice | None] = [None] * len(launches)
        for number, (launch, best) in enumerate(zip(launches, candidates, strict=True)):
            if not best:
                chosen[number] = GraphChoice(-1, 0.0)
            elif len(self._graphs(best)) == 1:
                chosen[number] = self._of_graph(self._roots[best[0]], best, 1.0)
            elif (name := self._named.get(launch.exec_id)) in self._graphs(best):
                chosen[number] = self._of_graph(name, best, 1.0)
        sections = list(_sections(launches, len(self._identities.order)))
        for section in sections:
            self._in_order(section, candidates, chosen)
        self._in_turn(sections, launches, candidates, chosen)
        return [choice or GraphChoice(-1, 0.0) for choice in chosen]

    def _candidates(self, launch: GraphLaunch) -> tuple[int, ...]:
        """The matchers of the graph that the ids name, or else those that look most like it."""
        name = self._named.get(launch.exec_id)
        key = np.append(np.sort(launch.codes), hash(name)).tobytes()
        if key not in self._likest_of:
            own = [index for index, root in enumerate(self._roots) if root == name]
            likest = self._likest(launch.codes, own) if own else ()
            self._likest_of[key] = likest or self._likest(launch.codes, range(len(self._roots)))
        return self._likest_of[key]

    def _likest(self, codes: Ints, among: Sequence[int]) -> tuple[int, ...]:
        seen = Counter(codes.tolist())
        scores = {index: self._matchers[index].likeness(seen, len(codes)) for index in among}
        highest = max(scores.values(), default=0.0)
        if highest < LIKE_ENOUGH:
            return ()
        return tuple(index for index, score in scores.items() if score == highest)

    def _graphs(self, matchers: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._roots[index] for index in matchers))

    def _of_graph(self, name: str, matchers: tuple[int, ...], share: float) -> GraphChoice:
        own = [index for index in matchers if self._roots[index] == name]
        return GraphChoice(own[0], share, len(own))

    def _in_order(
        self,
        section: list[int],
        candidates: list[tuple[int, ...]],
        chosen: list[GraphChoice | None],
    ) -> None:
        """By the order of launches that the node-id pass saw, if the section fits it."""
        order = self._identities.order
        fits = len(section) == len(order) and all(
            name in self._graphs(candidates[number])
            for number, name in zip(section, order, strict=True)
        )
        if not fits:
            return
        for number, name in zip(section, order, strict=True):
            if chosen[number] is None:
                chosen[number] = self._of_graph(name, candidates[number], 1.0)

    def _in_turn(
        self,
        sections: list[list[int]],
        launches: Sequence[GraphLaunch],
        candidates: list[tuple[int, ...]],
        chosen: list[GraphChoice | None],
    ) -> None:
        left = [number for number, choice in enumerate(chosen) if choice is None]
        share = {best: 1 / len(self._graphs(best)) for best in {candidates[p] for p in left}}
        for best in share:
            if self._once_a_step(best, sections, launches, candidates):
                share[best] = IN_TURN
        shown: dict[tuple[int, ...], set[int]] = {}
        for number in left:
            shown.setdefault(candidates[number], set()).add(launches[number].exec_id)
        turns: Counter[tuple[int, ...]] = Counter()
        for number in left:
            best = candidates[number]
            names = self._graphs(best)
            if len(shown[best]) == len(names):
                # Executable graphs are numbered as they are made, which follows their capture.
                name = names[sorted(shown[best]).index(launches[number].exec_id)]
                chosen[number] = self._of_graph(name, best, IN_TURN)
                continue
            name = names[turns[best] % len(names)]
            turns[best] += 1
            chosen[number] = self._of_graph(name, best, share[best])

    def _once_a_step(
        self,
        best: tuple[int, ...],
        sections: list[list[int]],
        launches: Sequence[GraphLaunch],
        candidates: list[tuple[int, ...]],
    ) -> bool:
        """Whether every step has as many launches of these graphs as there are of them."""
        count = len(self._graphs(best))
        steps = [section for section in sections if launches[section[0]].step >= 0]
        if not steps:
            return self._equally_often(candidates)
        before = sum(candidates[p] == best for p, launch in enumerate(launches) if launch.step < 0)
        return before % count == 0 and all(
            sum(candidates[p] == best for p in section) == count for section in steps
        )

    def _equally_often(self, candidates: Sequence[tuple[int, ...]]) -> bool:
        """Whether a trace without marked steps shows every graph of the run equally often, those
        included that look like no other: so it is of whole steps that launch each of them once."""
        times = Counter(candidates)
        shown = {root for best in times for root in self._graphs(best)}
        rounds = {divmod(count, len(self._graphs(best) or "-")) for best, count in times.items()}
        alone = len(times) == 1
        return (
            not alone
            and shown == set(self._roots)
            and len(rounds) == 1
            and next(iter(rounds))[1] == 0
        )


def _sections(launches: Sequence[GraphLaunch], length: int) -> Iterator[list[int]]:
    """The launches of each step; those outside of steps in portions of ``length``, if they come
    out even, else each run of them as it is."""
    begin = 0
    for number in range(1, len(launches) + 1):
        if number < len(launches) and launches[number].step == launches[begin].step:
            continue
        run = list(range(begin, number))
        if launches[begin].step < 0 and length and len(run) % length == 0:
            yield from (run[first : first + length] for first in range(0, len(run), length))
        else:
            yield run
        begin = number
