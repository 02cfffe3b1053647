"""What a ladder of capture sizes is chosen for: costs of each size, requests, and budgets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.arrays import Floats, Ints


class LadderProblem(Struct, frozen=True):
    """Sizes that could be captured, and requests that are padded to the next one that is."""

    sizes: Ints
    """The sizes that could be captured, ascending, shape (sizes,)."""
    replay_ns: Floats
    """What a step takes that replays each size, in ns."""
    own_bytes: Floats
    """Device memory that each graph needs whichever others there are: its executable, and what it
    keeps of the pool."""
    pool_bytes: Floats
    """The pool that graphs up to each size share, not falling: all use the same memory in turn, so
    that a ladder needs what its largest size does."""
    startup_ns: Floats
    """What each graph takes once: capture, instantiation, first launch."""
    requests: Ints
    """Sizes that are asked for, ascending, shape (requests,)."""
    counts: Floats
    """How often each is asked for."""
    fallback_ns: Floats
    """What a step of each request takes without a graph, in ns; infinite where that is unknown, so
    that a ladder must reach that far."""

    def only(self, places: Ints) -> LadderProblem:
        """The problem of a ladder among the sizes at ``places`` alone."""
        return replace(
            self,
            sizes=self.sizes[places],
            replay_ns=self.replay_ns[places],
            own_bytes=self.own_bytes[places],
            pool_bytes=self.pool_bytes[places],
            startup_ns=self.startup_ns[places],
        )

    def covered(self) -> Floats:
        """Requests that each size, and none below it, would be enough for, shape (sizes,)."""
        before = np.concatenate(([0.0], np.cumsum(self.counts)))
        return before[np.searchsorted(self.requests, self.sizes, side="right")]

    def beyond_ns(self) -> Floats:
        """What all requests above each size take together without a graph, in ns, and before them
        those of an empty ladder, shape (1 + sizes,)."""
        each = self.counts * np.where(self.counts > 0, self.fallback_ns, 0.0)
        after = np.concatenate((np.cumsum(each[::-1])[::-1], [0.0]))
        at = np.searchsorted(self.requests, self.sizes, side="right")
        return after[np.concatenate(([0], at))]


class Budget(Struct, frozen=True):
    """The most that a ladder may take; None where it may take any."""

    graphs: int | None = None
    """How many graphs."""
    memory_bytes: int | None = None
    """Device memory of the graphs, their pool included."""
    startup_ns: int | None = None
    """Time until the last graph is ready."""


class Ladder(Struct, frozen=True):
    """Chosen sizes, and how far they may be from the best."""

    sizes: tuple[int, ...]
    """The sizes to capture, ascending; none where no graph pays."""
    total_ns: float
    """What all requests take with them, in ns."""
    bound_ns: float
    """What no ladder within the budget goes below, in ns; ``total_ns`` where this is the best."""

    @property
    def is_best(self) -> bool:
        """Whether no ladder within the budget takes less."""
        return self.bound_ns >= self.total_ns


class LadderUse(Struct, frozen=True):
    """What one ladder comes to for the requests of a problem."""

    total_ns: float
    """What all requests take, in ns; infinite where one falls back and that is unknown."""
    padding_ns: float
    """What of it is padding: over what each request would take with a graph of its own size."""
    fallback_ns: float
    """What of it are requests without a graph."""
    fallbacks: float
    """How many requests have no graph."""
    memory_bytes: float
    """Device memory of its graphs."""
    startup_ns: float
    """Time to prepare its graphs."""


def padded_places(problem: LadderProblem, places: Ints) -> Ints:
    """For each request the place among ``problem.sizes`` of the graph that it is padded to, of
    those at ``places``; -1 where all are smaller. Shape (requests,)."""
    ladder = problem.sizes[places]
    at = np.searchsorted(ladder, problem.requests, side="left")
    return np.where(at < len(ladder), np.append(places, -1)[at], -1)


def ladder_places(problem: LadderProblem, sizes: Sequence[int]) -> Ints:
    """The places of ``sizes``, all of which are among ``problem.sizes``."""
    return np.searchsorted(problem.sizes, np.asarray(sorted(sizes), dtype=np.int64))


def use_of(problem: LadderProblem, sizes: Sequence[int]) -> LadderUse:
    """What the ladder of ``sizes``, each one of ``problem.sizes``, comes to."""
    places = ladder_places(problem, sizes)
    padded = padded_places(problem, places)
    counts = problem.counts
    graphed = (padded >= 0) & (counts > 0)
    falls_back = (padded < 0) & (counts > 0)
    replays = counts[graphed] * problem.replay_ns[padded[graphed]]
    own = np.interp(problem.requests[graphed], problem.sizes, problem.replay_ns)
    fallback_ns = float((counts[falls_back] * problem.fallback_ns[falls_back]).sum())
    return LadderUse(
        total_ns=float(replays.sum()) + fallback_ns,
        padding_ns=float((replays - counts[graphed] * own).sum()),
        fallback_ns=fallback_ns,
        fallbacks=float(counts[falls_back].sum()),
        memory_bytes=memory_of(problem, places),
        startup_ns=float(problem.startup_ns[places].sum()),
    )


def memory_of(problem: LadderProblem, places: Ints) -> float:
    """Device memory of the graphs at ascending ``places``, in bytes."""
    if not len(places):
        return 0.0
    return float(problem.own_bytes[places].sum() + problem.pool_bytes[places[-1]])
