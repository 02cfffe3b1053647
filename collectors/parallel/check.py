"""Whether replays compute what eager steps compute, sought with changed inputs and under stress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from collectors.parallel.capture import StepGraph
from collectors.parallel.follow import Follower
from collectors.parallel.observe import ObservedStep
from collectors.parallel.state import FLOATS, as_tensor
from graphviz_dash.model.parallel import Operator, ParallelCheck, Storage

_PLAIN: Final = 12
_LOADED: Final = 4
_DELAYED: Final = 4
"""Replays that are compared of each delayed graph."""

_SLACK: Final = 2.0
"""How much further than two eager steps from each other a replay may be from one, where operators
are not deterministic: the largest of few differences is itself by chance."""

_LOAD_VALUES: Final = 1 << 24
_LOAD_KERNELS: Final = 40

_NOISE: Final = 0.02
"""How far two eager steps may be from each other, of the largest value, that a replay can be told
from them."""

Copies = dict[int, list[torch.Tensor]]
"""By operator copies of what it returned."""

Bytes = dict[int, torch.Tensor]
"""By storage a copy of what the step wrote there."""


class _Kept(Follower):
    """Keeps what a step makes of some storages."""

    def __init__(
        self, operators: Sequence[Operator], storages: Sequence[Storage], wanted: set[int]
    ) -> None:
        super().__init__(operators, storages)
        self._wanted = wanted
        self.kept: dict[int, torch.UntypedStorage] = {}

    def made(self, number: int, tensor: torch.Tensor) -> None:
        if number in self._wanted:
            self.kept[number] = tensor.untyped_storage()


@dataclass(frozen=True)
class Outcome:
    """A comparison, and where it failed."""

    check: ParallelCheck
    """What was compared."""
    differs_at: int | None
    """The first operator with memory that differs by more than that of two eager steps; None: all
    is well."""
    noisy_at: int | None
    """The first operator with memory in which two eager steps are so far apart that nothing can be
    said of a replay; None: there is none."""


class Checker:
    """Runs a step eagerly and as graphs from the same state."""

    def __init__(self, observed: ObservedStep) -> None:
        self._observed = observed
        self._side = torch.cuda.Stream()
        self._writers: dict[int, int] = {}
        self._written: dict[int, tuple[int, int]] = {}
        for index, operator in enumerate(observed.operators):
            for access in operator.accesses if operator.nodes else ():
                if access.writes and access.end > access.begin:
                    self._writers.setdefault(access.storage, index)
                    begin, end = self._written.get(access.storage, (access.begin, 0))
                    self._written[access.storage] = (
                        min(begin, access.begin),
                        max(end, access.end),
                    )
        self._hidden = observed.hidden & self._written.keys()

    def check(
        self,
        graph: StepGraph,
        alive: Mapping[int, torch.UntypedStorage],
        delayed: Sequence[tuple[StepGraph, Mapping[int, torch.UntypedStorage]]],
    ) -> Outcome:
        """Compares replays with eager steps.

        Args:
            graph: the graph that was taken, and after it
            alive: what its capture left behind, by storage.
            delayed: graphs of the same plan with kernels that spin, and what each left behind.
        """
        with torch.random.fork_rng(devices=[torch.cuda.current_device()]):
            try:
                return self._compare(graph, alive, delayed)
            finally:
                self._observed.state.restore()

    def _compare(
        self,
        graph: StepGraph,
        alive: Mapping[int, torch.UntypedStorage],
        delayed: Sequence[tuple[StepGraph, Mapping[int, torch.UntypedStorage]]],
    ) -> Outcome:
        runs = [(graph, alive, False)] * _PLAIN + [(graph, alive, True)] * _LOADED
        runs += [(each, left, False) for each, left in delayed for _ in range(_DELAYED)]
        control: dict[int, float] = {}
        apart: dict[int, float] = {}
        unequal: list[set[int]] = []
        for seed, (replayed, left, loaded) in enumerate(runs):
            wanted = set(left)
            first, second = self._eager(seed, wanted), self._eager(seed, wanted)
            own = self._replay(seed, replayed, left, loaded)
            for number, eager in first.items():
                storage = self._observed.storages[number]
                between = difference(eager, second[number], storage)
                replay = difference(eager, own[number], storage)
                control[number] = max(control.get(number, 0.0), between)
                apart[number] = max(apart.get(number, 0.0), replay)
            unequal.append(
                {number for number, eager in first.items() if not torch.equal(eager, own[number])}
            )
        for number in self._observed.hidden & control.keys():
            # A library's notes to itself, that say another thing after each of two eager steps.
            if control[number]:
                del control[number], apart[number]
        wrong = [number for number, by in apart.items() if by > _SLACK * control[number]]
        check = ParallelCheck(
            replays=len(runs),
            delayed_replays=_DELAYED * len(delayed),
            loaded_replays=_LOADED,
            tensors=len(apart),
            bitwise_replays=sum(not numbers & apart.keys() for numbers in unequal),
            eager_difference=max(control.values(), default=0.0),
            difference=max(apart.values(), default=0.0),
        )
        noisy = [number for number, by in control.items() if by > _NOISE]
        return Outcome(check, self._first(wrong), self._first(noisy))

    def first_differing(self, graph: StepGraph, copies: Copies) -> int | None:
        """The first operator whose results in a replay are not those of an eager step, of a graph
        that copies them all; None where none is, with the copies in the way."""
        with torch.random.fork_rng(devices=[torch.cuda.current_device()]):
            kept = _Kept(self._observed.operators, self._observed.storages, set())
            kept.copies = {}
            self._run(0, kept)
            self._replay(0, graph, {}, loaded=False)
            self._observed.state.restore()
        for index, eager in sorted(kept.copies.items()):
            own = copies.get(index, [])
            if any(
                not torch.allclose(a, b, rtol=_NOISE, atol=0, equal_nan=True)
                for a, b in zip(eager, own, strict=False)
            ):
                return index
        return None

    def _first(self, numbers: Sequence[int]) -> int | None:
        return min((self._writers[number] for number in numbers), default=None)

    def _eager(self, seed: int, wanted: set[int]) -> Bytes:
        kept = _Kept(self._observed.operators, self._observed.storages, wanted)
        self._run(seed, kept)
        self._leave_out_untouched()
        return self._read(kept.kept)

    def _leave_out_untouched(self) -> None:
        """Compares no hidden memory that the first eager step leaves as it is: weights of compiled
        code, and workspaces that are another's there."""
        for number in self._hidden:
            if self._observed.state.is_as_kept(number):
                del self._written[number]
        self._hidden = frozenset()

    def _run(self, seed: int, kept: _Kept) -> None:
        """An eager step."""
        self._observed.state.vary(seed)
        torch.manual_seed(seed)
        kept.start()
        with kept:
            # What it returns would keep the memory of its results.
            self._observed.step()
        kept.finish()
        torch.cuda.synchronize()

    def _replay(
        self, seed: int, graph: StepGraph, left: Mapping[int, torch.UntypedStorage], loaded: bool
    ) -> Bytes:
        self._observed.state.vary(seed)
        torch.manual_seed(seed)
        torch.cuda.synchronize()
        if loaded:
            self._keep_busy()
        graph.graph.replay()
        torch.cuda.synchronize()
        return self._read(left)

    def _keep_busy(self) -> None:
        """Launches work on another stream that fills the GPU for a while."""
        with torch.cuda.stream(self._side):
            values = torch.ones(_LOAD_VALUES, device="cuda")
            for _ in range(_LOAD_KERNELS):
                values.add_(1)

    def _read(self, made: Mapping[int, torch.UntypedStorage]) -> Bytes:
        return {
            number: _bytes(storage, *self._written[number])
            for number, storage in (self._observed.state.storages | dict(made)).items()
            if number in self._written
        }


def _bytes(storage: torch.UntypedStorage, begin: int, end: int) -> torch.Tensor:
    """A copy of some bytes of a storage."""
    return as_tensor(storage, torch.uint8)[begin:end].clone()


def difference(a: torch.Tensor, b: torch.Tensor, storage: Storage) -> float:
    """How far two copies of a storage's bytes are apart: the largest difference of two values over
    the largest value, 0 where all bits are equal, infinite where it is of no size."""
    if torch.equal(a, b):
        return 0.0
    dtype = getattr(torch, storage.dtype)
    if dtype not in FLOATS or a.numel() % dtype.itemsize:
        return float("inf")
    x, y = (each.view(dtype).double() for each in (a, b))
    both = torch.isfinite(x) & torch.isfinite(y)
    if not torch.equal(x[~both].nan_to_num(), y[~both].nan_to_num()):
        return float("inf")
    scale = float(x[both].abs().max()) if both.any() else 0.0
    return float((x - y)[both].abs().max()) / scale if scale else float("inf")
