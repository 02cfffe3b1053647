"""Check that replays compute the same as eager steps, with changed inputs and under load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from collectors.parallel.capture import StepGraph
from collectors.parallel.deviation import (
    GROSS_DIFFERENCE,
    TensorDeviations,
    find_wrong_tensors,
)
from collectors.parallel.follow import Follower
from collectors.parallel.observe import ObservedStep
from collectors.parallel.state import FLOATS, view_as_tensor
from graphviz_dash.model.parallel import Operator, ParallelCheck, Storage

_PLAIN_REPLAYS: Final = 12
_LOADED_REPLAYS: Final = 4
_DELAYED_REPLAYS: Final = 4
"""Compared replays of each delayed graph."""

_PLAIN, _LOADED, _DELAYED = range(3)
"""Kinds of replays. Each delayed graph has its own number, from _DELAYED on."""

_LOAD_VALUES: Final = 1 << 24
_LOAD_KERNELS: Final = 40

_MAX_NOISE: Final = GROSS_DIFFERENCE
"""Maximum relative difference of two eager steps at which a replay can be checked."""

Copies = dict[int, list[torch.Tensor]]
"""Copies of results, by operator."""

Bytes = dict[int, torch.Tensor]
"""Copies of bytes written by the step, by storage."""


class _StorageKeeper(Follower):
    def __init__(
        self, operators: Sequence[Operator], storages: Sequence[Storage], requested: set[int]
    ) -> None:
        super().__init__(operators, storages)
        self._wanted = requested
        self.kept: dict[int, torch.UntypedStorage] = {}

    def on_storage_created(self, number: int, tensor: torch.Tensor) -> None:
        if number in self._wanted:
            self.kept[number] = tensor.untyped_storage()


@dataclass(frozen=True)
class CheckOutcome:
    """Result of a comparison."""

    check: ParallelCheck
    differs_at: int | None
    """First operator whose memory differs significantly more than that of two eager steps."""
    noisy_at: int | None
    """First operator whose memory is too noisy to check a replay."""


class Checker:
    """Runs a step eagerly and as graphs from the same state."""

    def __init__(self, observed: ObservedStep) -> None:
        self._observed = observed
        self._side = torch.cuda.Stream()
        self._writers: dict[int, int] = {}
        self._written: dict[int, tuple[int, int]] = {}
        for index, operator in enumerate(observed.operators):
            for access in operator.accesses if operator.nodes else ():
                if access.writes and access.end > access.start:
                    self._writers.setdefault(access.storage, index)
                    begin, end = self._written.get(access.storage, (access.start, 0))
                    self._written[access.storage] = (
                        min(begin, access.start),
                        max(end, access.end),
                    )
        self._hidden = observed.hidden & self._written.keys()

    def check_replays(
        self,
        graph: StepGraph,
        alive: Mapping[int, torch.UntypedStorage],
        delayed: Sequence[tuple[StepGraph, Mapping[int, torch.UntypedStorage]]],
    ) -> CheckOutcome:
        """Compare replays with eager steps.

        Args:
            alive: Storages left by the capture of ``graph``.
            delayed: Graphs with spinning kernels, and their storages.
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
    ) -> CheckOutcome:
        runs = [(graph, alive, False, _PLAIN)] * _PLAIN_REPLAYS
        runs += [(graph, alive, True, _LOADED)] * _LOADED_REPLAYS
        runs += [
            (delayed_graph, left, False, _DELAYED + number)
            for number, (delayed_graph, left) in enumerate(delayed)
            for _ in range(_DELAYED_REPLAYS)
        ]
        deviations: dict[int, TensorDeviations] = {}
        unequal: list[set[int]] = []
        for seed, (replayed, left, loaded, kind) in enumerate(runs):
            requested = set(left)
            first, second = self._run_eager(seed, requested), self._run_eager(seed, requested)
            replay_bytes = self._run_replay(seed, replayed, left, loaded)
            for number, eager in first.items():
                storage = self._observed.storages[number]
                tensor = deviations.setdefault(number, TensorDeviations())
                tensor.eager.append(compute_difference(eager, second[number], storage))
                tensor.replays.setdefault(kind, []).append(
                    compute_difference(eager, replay_bytes[number], storage)
                )
            unequal.append(
                {
                    number
                    for number, eager in first.items()
                    if not torch.equal(eager, replay_bytes[number])
                }
            )
        for number in self._observed.hidden & deviations.keys():
            # Internal library state that differs between two eager steps.
            if deviations[number].largest_eager:
                del deviations[number]
        wrong = find_wrong_tensors(deviations, self._writers)
        noisy = [
            number for number, tensor in deviations.items() if tensor.largest_eager > _MAX_NOISE
        ]
        # The figures of the tensor that the result refers to, if there is one.
        failing = min(noisy or wrong, key=lambda number: self._writers[number], default=None)
        shown = list(deviations.values()) if failing is None else [deviations[failing]]
        check = ParallelCheck(
            replays=len(runs),
            delayed_replays=_DELAYED_REPLAYS * len(delayed),
            loaded_replays=_LOADED_REPLAYS,
            tensors=len(deviations),
            bitwise_replays=sum(not numbers & deviations.keys() for numbers in unequal),
            eager_difference=max((tensor.largest_eager for tensor in shown), default=0.0),
            difference=max((tensor.largest_replay for tensor in shown), default=0.0),
        )
        return CheckOutcome(check, self._find_first_writer(wrong), self._find_first_writer(noisy))

    def find_first_difference(self, graph: StepGraph, copies: Copies) -> int | None:
        """Return the first operator whose replayed results differ from an eager step, or None."""
        with torch.random.fork_rng(devices=[torch.cuda.current_device()]):
            storage_keeper = _StorageKeeper(
                self._observed.operators, self._observed.storages, set()
            )
            storage_keeper.copies = {}
            self._run_step(0, storage_keeper)
            self._run_replay(0, graph, {}, loaded=False)
            self._observed.state.restore()
        for index, eager in sorted(storage_keeper.copies.items()):
            replayed = copies.get(index, [])
            if any(
                not torch.allclose(a, b, rtol=_MAX_NOISE, atol=0, equal_nan=True)
                for a, b in zip(eager, replayed, strict=False)
            ):
                return index
        return None

    def _find_first_writer(self, numbers: Sequence[int]) -> int | None:
        return min((self._writers[number] for number in numbers), default=None)

    def _run_eager(self, seed: int, requested: set[int]) -> Bytes:
        keeper = _StorageKeeper(self._observed.operators, self._observed.storages, requested)
        self._run_step(seed, keeper)
        self._ignore_untouched()
        return self._copy_written_bytes(keeper.kept)

    def _ignore_untouched(self) -> None:
        """Exclude hidden memory that the first eager step leaves unchanged, such as weights."""
        for number in self._hidden:
            if self._observed.state.is_unchanged(number):
                del self._written[number]
        self._hidden = frozenset()

    def _run_step(self, seed: int, keeper: _StorageKeeper) -> None:
        self._observed.state.restore_varied(seed)
        torch.manual_seed(seed)
        keeper.start()
        with keeper:
            # Discard the return value, which would keep the results' memory alive.
            self._observed.step()
        keeper.finish()
        torch.cuda.synchronize()

    def _run_replay(
        self,
        seed: int,
        graph: StepGraph,
        storages: Mapping[int, torch.UntypedStorage],
        loaded: bool,
    ) -> Bytes:
        self._observed.state.restore_varied(seed)
        torch.manual_seed(seed)
        torch.cuda.synchronize()
        if loaded:
            self._start_load()
        graph.graph.replay()
        torch.cuda.synchronize()
        return self._copy_written_bytes(storages)

    def _start_load(self) -> None:
        with torch.cuda.stream(self._side):
            values = torch.ones(_LOAD_VALUES, device="cuda")
            for _ in range(_LOAD_KERNELS):
                values.add_(1)

    def _copy_written_bytes(self, storages: Mapping[int, torch.UntypedStorage]) -> Bytes:
        return {
            number: _copy_bytes(storage, *self._written[number])
            for number, storage in (self._observed.state.storages | dict(storages)).items()
            if number in self._written
        }


def _copy_bytes(storage: torch.UntypedStorage, begin: int, end: int) -> torch.Tensor:
    return view_as_tensor(storage, torch.uint8)[begin:end].clone()


def compute_difference(a: torch.Tensor, b: torch.Tensor, storage: Storage) -> float:
    """Return the largest difference of two copies of a storage relative to its largest value.

    For integers it is the fraction of unequal values: a rounding difference can change an index or
    a mask, but only a few of them.
    """
    if torch.equal(a, b):
        return 0.0
    dtype = getattr(torch, storage.dtype)
    if a.numel() % dtype.itemsize:
        return float("inf")
    if dtype not in FLOATS:
        return float((a.view(dtype) != b.view(dtype)).double().mean())
    x, y = (values.view(dtype).double() for values in (a, b))
    finite = torch.isfinite(x) & torch.isfinite(y)
    if not torch.equal(x[~finite].nan_to_num(), y[~finite].nan_to_num()):
        return float("inf")
    scale = float(x[finite].abs().max()) if finite.any() else 0.0
    return float((x - y)[finite].abs().max()) / scale if scale else float("inf")
