"""Coordinate several processes of one collection.

Each rank has a parent, started by torchrun, that starts a worker per pass and reports its end in a
key-value store. When a rank fails, the other workers are killed after a grace period.

A process is a rank if torchrun's variables are set (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR,
MASTER_PORT).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

import msgspec

from collectors.process.requests import GroupRequest
from collectors.process.subprocesses import CANCELLED
from graphviz_dash.errors import GraphvizDashError, InputError, MissingRequirementError
from graphviz_dash.model.run import Failure, Pass, RankGroup

_REQUIRED_VARIABLES: Final = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_STORE_GRACE_S: Final = 1.0
"""Time that rank 0 keeps its store at the end."""

_SETTLE_S: Final = 120.0
"""Maximum time between ranks at the end of a pass."""

_POLL_S: Final = 0.1
_FIRST_READY_KEY: Final = "rank 0 is ready"
_START_S: Final = 300.0

_RECORDED_SETTINGS: Final = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_IB_DISABLE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NTHREADS",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_SHM_DISABLE",
    "TORCH_NCCL_AVOID_RECORD_STREAMS",
)
"""Variables that affect collectives. Others may name hosts or folders."""


@dataclass(frozen=True)
class RankContext:
    """Position of this process among the ranks, and the address of their store."""

    rank: int
    """Global rank, from 0."""
    world_size: int
    local_rank: int
    """Rank on this machine, from 0."""
    local_world_size: int
    address: str
    """Host of the ranks' store."""
    port: int
    is_store_hosted: bool
    """torchrun hosts the store; otherwise rank 0 does."""
    attempt: int
    """Restart count; keys of earlier attempts may still be in the store."""

    @property
    def launcher(self) -> tuple[str, ...]:
        """Command that starts the ranks, as far as known."""
        nodes = self.world_size // max(self.local_world_size, 1)
        several = ("--nnodes", str(nodes)) if nodes > 1 else ()
        return ("torchrun", *several, "--nproc-per-node", str(self.local_world_size))


def read_rank_context(environment: Mapping[str, str]) -> RankContext | None:
    """Read torchrun's variables; return None if they name no rank.

    Raises:
        InputError: Some variables are missing or not numbers, or the rank is out of range.
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    missing = [name for name in _REQUIRED_VARIABLES if not environment.get(name)]
    if missing:
        raise InputError(
            "the environment",
            f"RANK and WORLD_SIZE without {' and '.join(missing)}",
            "all of the variables that torchrun sets",
            "Start with torchrun, or unset RANK and WORLD_SIZE.",
        )
    rank, world_size, local_rank, port = (
        _parse_number(environment, name)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
    )
    if rank >= world_size:
        raise InputError("the environment", f"RANK {rank}", f"less than WORLD_SIZE {world_size}")
    return RankContext(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=_parse_number(environment, "LOCAL_WORLD_SIZE", default=world_size),
        address=environment["MASTER_ADDR"],
        port=port,
        is_store_hosted=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=_parse_number(environment, "TORCHELASTIC_RESTART_COUNT", default=0),
    )


def _parse_number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name)
    if text is None and default is not None:
        return default
    if text is None or not (text.isascii() and text.isdigit()):
        raise InputError("the environment", f"{name}={text}", "a whole number, as set by torchrun")
    return int(text)


def get_worker_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return additional variables for all workers: disables NVLink multicast (NVLS) unless set."""
    return {} if "NCCL_NVLS_ENABLE" in environment else {"NCCL_NVLS_ENABLE": "0"}


def get_recorded_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the set variables that change how collectives run."""
    return {name: environment[name] for name in _RECORDED_SETTINGS if name in environment}


class KeyValueStore(Protocol):
    """The part of torch.distributed's store interface in use."""

    def set(self, key: str, value: str) -> None:
        """Set the value of ``key``."""

    def get(self, key: str) -> bytes:
        """Return the value of an existing key."""

    def check(self, keys: list[str]) -> bool:
        """Check if all ``keys`` exist."""


class _Outcome(msgspec.Struct):
    failure: Failure | None


class Peers:
    """Parents of the other ranks. Each pass has a unique name."""

    def __init__(
        self,
        context: RankContext,
        store: KeyValueStore,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.context = context
        self._store = store
        self._clock = clock
        self._sleep = sleep

    def build_group_request(self, pass_name: str, timeout_s: int) -> GroupRequest:
        """Return the rendezvous of this rank's worker in a pass."""
        context = self.context
        return GroupRequest(
            rank=context.rank,
            world_size=context.world_size,
            local_rank=context.local_rank,
            address=context.address,
            port=context.port,
            prefix=f"{_build_prefix(context)}/workers/{pass_name}",
            timeout_s=timeout_s,
        )

    def build_rank_group(self, environment: Mapping[str, str]) -> RankGroup:
        """Describe the ranks for the manifest; ``environment`` is the workers'."""
        return RankGroup(
            world_size=self.context.world_size,
            device=self.context.local_rank,
            settings=get_recorded_settings(environment),
        )

    def run_on_first(self, task: Callable[[], None]) -> None:
        """Run ``task`` on rank 0; return on every rank when it is done.

        Raises:
            GraphvizDashError: Rank 0 did not respond.
        """
        if self.context.rank == 0:
            task()
            self._store.set(_FIRST_READY_KEY, "")
            return
        deadline = self._clock() + _START_S
        while not self._store.check([_FIRST_READY_KEY]):
            if self._clock() > deadline:
                raise GraphvizDashError(f"Rank 0 did not start within {_START_S:.0f} s.")
            self._sleep(_POLL_S)

    def exchange_outcome(
        self, pass_name: str, failure: Failure | None, during: Pass
    ) -> Failure | None:
        """Report this rank's outcome and return the failure of the pass on any rank."""
        self._store.set(self._build_key(pass_name, self.context.rank), _encode_outcome(failure))
        others = [rank for rank in range(self.context.world_size) if rank != self.context.rank]
        silent = self._wait_for_reports(pass_name, others)
        causes = [
            text for rank in others if (text := self._read_cause(pass_name, rank)) is not None
        ]
        causes += [f"rank {rank} did not report how its pass ended" for rank in silent]
        # A worker killed because of another rank's failure adds no information.
        if not causes or (failure is not None and failure.error == CANCELLED):
            return failure
        listed = "; ".join(causes)
        if failure is None:
            return Failure(during, "RankFailed", listed, None, "")
        return msgspec.structs.replace(
            failure, message=f"{failure.message}\nOther ranks also failed: {listed}"
        )

    def _wait_for_reports(self, pass_name: str, others: list[int]) -> list[int]:
        """Wait for each rank's report; return the ranks without one."""
        deadline = self._clock() + _SETTLE_S
        waiting = others
        while waiting and self._clock() < deadline:
            waiting = [
                rank
                for rank in waiting
                if not self._store.check([self._build_key(pass_name, rank)])
            ]
            if waiting:
                # Sleep briefly between checks so that signals are handled.
                self._sleep(_POLL_S)
        return waiting

    def find_failure(self, pass_name: str) -> str | None:
        """Return the cause of another rank's failure in a pass, or None so far."""
        for rank in range(self.context.world_size):
            if (
                rank != self.context.rank
                and (cause := self._read_cause(pass_name, rank)) is not None
            ):
                return cause
        return None

    def _read_cause(self, pass_name: str, rank: int) -> str | None:
        key = self._build_key(pass_name, rank)
        if not self._store.check([key]):
            return None
        failure = msgspec.json.decode(self._store.get(key), type=_Outcome).failure
        if failure is None or failure.error == CANCELLED:
            return None
        lines = failure.message.strip().splitlines()
        location = f" at {failure.location}" if failure.location else ""
        return f"rank {rank} failed{location}: {failure.error}: {lines[0] if lines else ''}"

    def _build_key(self, pass_name: str, rank: int) -> str:
        return f"parents/{pass_name}/{rank}"


def _encode_outcome(failure: Failure | None) -> str:
    return msgspec.json.encode(_Outcome(failure)).decode()


def _build_prefix(context: RankContext) -> str:
    return f"graphviz-dash/{context.attempt}"


@contextmanager
def join_ranks(context: RankContext | None) -> Iterator[Peers | None]:
    """Yield the peers of this rank, or None for a collection without ranks.

    Raises:
        MissingRequirementError: torch is missing, or built without torch.distributed.
        GraphvizDashError: The ranks' store is unreachable.
    """
    if context is None:
        yield None
        return
    store = _Store(context)
    yield Peers(context, store)
    # The first exiting rank may take the store along, and an error exit makes torchrun end the
    # others while they still write.
    store.set(f"bye/{context.rank}", "")
    exit_keys = [f"bye/{rank}" for rank in range(context.world_size)]
    deadline = time.monotonic() + _SETTLE_S
    while not store.check(exit_keys) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if context.rank == 0 and not context.is_store_hosted:
        time.sleep(_STORE_GRACE_S)


class _Store:
    def __init__(self, context: RankContext) -> None:
        try:
            import torch.distributed as dist
        except ImportError as error:
            raise MissingRequirementError(f"Several ranks need torch: {error}") from error
        if not dist.is_available():
            raise MissingRequirementError("This torch is built without torch.distributed.")
        self._where = f"{context.address}:{context.port}"
        self._store = self._call_store(
            lambda: dist.PrefixStore(
                _build_prefix(context),
                dist.TCPStore(
                    context.address,
                    context.port,
                    is_master=context.rank == 0 and not context.is_store_hosted,
                    timeout=timedelta(seconds=_START_S),
                    wait_for_workers=False,
                ),
            )
        )

    def set(self, key: str, value: str) -> None:
        self._call_store(lambda: self._store.set(key, value))

    def get(self, key: str) -> bytes:
        value: bytes = self._call_store(lambda: self._store.get(key))
        return value

    def check(self, keys: list[str]) -> bool:
        return bool(self._call_store(lambda: self._store.check(keys)))

    def _call_store(self, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except RuntimeError as error:  # raised by torch's stores, including DistNetworkError
            first = (str(error).splitlines() or [""])[0]
            raise GraphvizDashError(
                f"The ranks' store at {self._where} is unreachable: {first}"
            ) from error
