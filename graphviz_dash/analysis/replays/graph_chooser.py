"""Assignment of graph launches in a trace to captured graphs.

Equal-looking graphs (for example, separately captured layers of a model) are distinguished by
the id of the executable graph, if the trace has it and the driver identified it. Otherwise the
order of launches per step from the node-id pass decides, or else the capture order, because
steps usually launch graphs in that order. The latter is reliable only if the counts fit.
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

TURN_CONFIDENCE: Final = 0.9
"""Confidence that equal-looking graphs were launched in capture order, once each per step."""

MIN_LIKENESS: Final = 0.5
"""Minimum fraction of equal rows and nodes to assign a launch to a graph."""


class GraphIdentities(Struct, frozen=True):
    """Known identities of the graphs in addition to their appearance.

    ``ids`` belong to the traced process. ``order`` lists the graphs that a step launches, from
    another process of the same program; empty if unknown.
    """

    ids: tuple[GraphIds, ...] = ()
    order: tuple[str, ...] = ()


NO_IDENTITIES: Final = GraphIdentities()


class GraphLaunch(NamedTuple):
    """A graph launch: signatures of its rows, its step (-1: none) and executable graph id (-1:
    none).
    """

    codes: Ints
    step: int
    exec_id: int


class GraphChoice(NamedTuple):
    """The graph chosen for a launch.

    ``matcher`` is an index (-1: no match), ``share`` the confidence, 0 to 1, and ``variant_count``
    the number of equally good ways to run that graph.
    """

    matcher: int
    share: float
    variant_count: int = 1


def find_launch_order(node_ids: NodeIdPass | None) -> tuple[str, ...]:
    """Return the graphs that a step of the node-id pass launches, in order.

    Empty if steps differ or an id belongs to no known graph.
    """
    if node_ids is None or not node_ids.launch_steps:
        return ()
    name_of = {ident: ids.graph for ids in node_ids.graphs for ident in ids.executable_ids}
    graph_of = {row.launch: name_of.get(row.graph) for row in node_ids.rows}
    steps: dict[int, list[str | None]] = {}
    for launch, step in enumerate(node_ids.launch_steps):
        steps.setdefault(step, []).append(graph_of.get(launch))
    first, *others = steps.values()
    if any(other != first for other in others) or None in first:
        return ()
    return tuple(name for name in first if name is not None)


def locate_steps(times: Ints, trace: Trace, prefix: str) -> Ints:
    """Return the index of the range named ``prefix...`` around each of ``times``, or -1."""
    ranges = trace.annotations.filter(trace.annotations["name"].str.starts_with(prefix))
    begins = ranges["ts"].to_numpy().astype(np.int64)
    if not len(begins):
        return np.full(len(times), -1, dtype=np.int64)
    ends = begins + ranges["dur"].to_numpy().astype(np.int64)
    range_index = np.searchsorted(begins, times, "right") - 1
    return np.where((range_index >= 0) & (times <= ends[range_index]), range_index, -1)


class GraphChooser:
    """Chooser of graphs for launches.

    ``roots`` names the graph of each matcher; a graph has one matcher per way to run.
    """

    def __init__(
        self, matchers: Sequence[GraphMatcher], roots: Sequence[str], identities: GraphIdentities
    ) -> None:
        self._matchers = matchers
        self._roots = roots
        self._identities = identities
        self._named = {ident: ids.graph for ids in identities.ids for ident in ids.executable_ids}
        self._likest_of: dict[bytes, tuple[int, ...]] = {}

    def choose(self, launches: Sequence[GraphLaunch]) -> list[GraphChoice]:
        """Return the choice for each launch of a trace, in time order."""
        candidates = [self._find_candidates(launch) for launch in launches]
        chosen: list[GraphChoice | None] = [None] * len(launches)
        for number, (launch, best) in enumerate(zip(launches, candidates, strict=True)):
            if not best:
                chosen[number] = GraphChoice(-1, 0.0)
            elif len(self._get_graph_names(best)) == 1:
                chosen[number] = self._make_choice(self._roots[best[0]], best, 1.0)
            elif (name := self._named.get(launch.exec_id)) in self._get_graph_names(best):
                chosen[number] = self._make_choice(name, best, 1.0)
        sections = list(_split_sections(launches, len(self._identities.order)))
        for section in sections:
            self._choose_by_order(section, candidates, chosen)
        self._choose_by_turn(sections, launches, candidates, chosen)
        return [choice or GraphChoice(-1, 0.0) for choice in chosen]

    def _find_candidates(self, launch: GraphLaunch) -> tuple[int, ...]:
        """Return the matchers of the graph identified by id, or else the most similar ones."""
        name = self._named.get(launch.exec_id)
        key = np.append(np.sort(launch.codes), hash(name)).tobytes()
        if key not in self._likest_of:
            indices = [index for index, root in enumerate(self._roots) if root == name]
            likest = self._find_most_similar(launch.codes, indices) if indices else ()
            self._likest_of[key] = likest or self._find_most_similar(
                launch.codes, range(len(self._roots))
            )
        return self._likest_of[key]

    def _find_most_similar(self, codes: Ints, candidates: Sequence[int]) -> tuple[int, ...]:
        counts = Counter(codes.tolist())
        scores = {
            index: self._matchers[index].compute_likeness(counts, len(codes))
            for index in candidates
        }
        highest = max(scores.values(), default=0.0)
        if highest < MIN_LIKENESS:
            return ()
        return tuple(index for index, score in scores.items() if score == highest)

    def _get_graph_names(self, matchers: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._roots[index] for index in matchers))

    def _make_choice(self, name: str, matchers: tuple[int, ...], share: float) -> GraphChoice:
        indices = [index for index in matchers if self._roots[index] == name]
        return GraphChoice(indices[0], share, len(indices))

    def _choose_by_order(
        self,
        section: list[int],
        candidates: list[tuple[int, ...]],
        chosen: list[GraphChoice | None],
    ) -> None:
        """Assign graphs by the launch order of the node-id pass, if the section fits it."""
        order = self._identities.order
        fits = len(section) == len(order) and all(
            name in self._get_graph_names(candidates[number])
            for number, name in zip(section, order, strict=True)
        )
        if not fits:
            return
        for number, name in zip(section, order, strict=True):
            if chosen[number] is None:
                chosen[number] = self._make_choice(name, candidates[number], 1.0)

    def _choose_by_turn(
        self,
        sections: list[list[int]],
        launches: Sequence[GraphLaunch],
        candidates: list[tuple[int, ...]],
        chosen: list[GraphChoice | None],
    ) -> None:
        undecided_launches = [number for number, choice in enumerate(chosen) if choice is None]
        share = {
            best: 1 / len(self._get_graph_names(best))
            for best in {candidates[p] for p in undecided_launches}
        }
        for best in share:
            if self._is_once_per_step(best, sections, launches, candidates):
                share[best] = TURN_CONFIDENCE
        exec_ids: dict[tuple[int, ...], set[int]] = {}
        for number in undecided_launches:
            exec_ids.setdefault(candidates[number], set()).add(launches[number].exec_id)
        turns: Counter[tuple[int, ...]] = Counter()
        for number in undecided_launches:
            best = candidates[number]
            names = self._get_graph_names(best)
            if len(exec_ids[best]) == len(names):
                # Executable graphs are numbered on creation, which follows capture order.
                name = names[sorted(exec_ids[best]).index(launches[number].exec_id)]
                chosen[number] = self._make_choice(name, best, TURN_CONFIDENCE)
                continue
            name = names[turns[best] % len(names)]
            turns[best] += 1
            chosen[number] = self._make_choice(name, best, share[best])

    def _is_once_per_step(
        self,
        best: tuple[int, ...],
        sections: list[list[int]],
        launches: Sequence[GraphLaunch],
        candidates: list[tuple[int, ...]],
    ) -> bool:
        count = len(self._get_graph_names(best))
        steps = [section for section in sections if launches[section[0]].step >= 0]
        if not steps:
            return self._is_equally_often(candidates)
        before = sum(candidates[p] == best for p, launch in enumerate(launches) if launch.step < 0)
        return before % count == 0 and all(
            sum(candidates[p] == best for p in section) == count for section in steps
        )

    def _is_equally_often(self, candidates: Sequence[tuple[int, ...]]) -> bool:
        """Return whether a trace without marked steps shows every graph equally often.

        This includes unique graphs. The trace then consists of complete steps that launch each
        graph once.
        """
        times = Counter(candidates)
        graph_names = {root for best in times for root in self._get_graph_names(best)}
        rounds = {
            divmod(count, len(self._get_graph_names(best) or "-")) for best, count in times.items()
        }
        is_single = len(times) == 1
        return (
            not is_single
            and graph_names == set(self._roots)
            and len(rounds) == 1
            and next(iter(rounds))[1] == 0
        )


def _split_sections(launches: Sequence[GraphLaunch], length: int) -> Iterator[list[int]]:
    """Split the launches into steps.

    Launches outside steps are split into portions of ``length`` if they divide evenly; otherwise
    each run of them is one section.
    """
    start = 0
    for number in range(1, len(launches) + 1):
        if number < len(launches) and launches[number].step == launches[start].step:
            continue
        run = list(range(start, number))
        if launches[start].step < 0 and length and len(run) % length == 0:
            yield from (run[first : first + length] for first in range(0, len(run), length))
        else:
            yield run
        start = number
