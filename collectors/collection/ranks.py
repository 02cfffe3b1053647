"""Several processes of one collection: who this one is, and how the parents keep together.

Each rank has a parent, which torchrun starts, and each parent starts its own worker for each pass.
Parents meet in a key-value store. They tell each other how every pass ended, so that no worker
waits for one that is gone: when a rank fails, the workers of the others are ended after a grace.

With a rank's number in the environment as torchrun sets it (RANK, LOCAL_RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT) a collection is one of several ranks; without, it is the only one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

import msgspec

from collectors.process.requests import GroupRequest
from collectors.process.subprocesses import ENDED
from graphviz_dash.errors import GraphvizDashError, InputError, MissingRequirementError
from graphviz_dash.model.run import Failure, Pass, RankGroup

_NEEDED: Final = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_LAST_LOOK_S: Final = 1.0
"""How long rank 0 keeps its store when all are done: the others ask once more whether they are."""

_SETTLE_S: Final = 120.0
"""How long the ranks may be apart at the end of a pass: writing traces takes unlike times."""

_POLL_S: Final = 0.1
_FIRST: Final = "rank 0 is ready"
_START_S: Final = 300.0

_KEPT_SETTINGS: Final = (
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
"""Variables that change how collectives run. Others can name hosts or folders and are not kept."""


@dataclass(frozen=True)
class RankContext:
    """Which of the ranks this process is, and where the ranks' store is."""

    rank: int
    """Of all ranks, from 0."""
    world_size: int
    """How many ranks there are."""
    local_rank: int
    """Of the ranks on this machine, from 0."""
    local_world_size: int
    """How many ranks this machine has."""
    address: str
    """The host of the ranks' store."""
    port: int
    """The port of the ranks' store."""
    hosted: bool
    """Whether torchrun keeps the store; else rank 0 does."""
    attempt: int
    """Counts restarts: keys of an earlier attempt may still be in the store."""

    @property
    def launcher(self) -> tuple[str, ...]:
        """The command that starts the ranks, as far as they can tell."""
        nodes = self.world_size // max(self.local_world_size, 1)
        several = ("--nnodes", str(nodes)) if nodes > 1 else ()
        return ("torchrun", *several, "--nproc-per-node", str(self.local_world_size))


def rank_context_of(environment: Mapping[str, str]) -> RankContext | None:
    """What the variables of torchrun say; None where they do not name a rank.

    Raises:
        InputError: some are missing or are not numbers, or the rank is outside the world.
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    missing = [name for name in _NEEDED if not environment.get(name)]
    if missing:
        raise InputError(
            "the environment",
            f"RANK and WORLD_SIZE without {' and '.join(missing)}",
            "all of the variables that torchrun sets",
            "Start with torchrun, or unset RANK and WORLD_SIZE.",
        )
    rank, world_size, local_rank, port = (
        _number(environment, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")
    )
    if rank >= world_size:
        raise InputError("the environment", f"RANK {rank}", f"less than WORLD_SIZE {world_size}")
    return RankContext(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=_number(environment, "LOCAL_WORLD_SIZE", default=world_size),
        address=environment["MASTER_ADDR"],
        port=port,
        hosted=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=_number(environment, "TORCHELASTIC_RESTART_COUNT", default=0),
    )


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name)
    if text is None and default is not None:
        return default
    if text is None or not (text.isascii() and text.isdigit()):
        raise InputError("the environment", f"{name}={text}", "a whole number, as torchrun sets it")
    return int(text)


def worker_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that every rank's workers get besides: NVLink multicast (NVLS) is off unless
    the user set it."""
    return {} if "NCCL_NVLS_ENABLE" in environment else {"NCCL_NVLS_ENABLE": "0"}


def kept_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that change how collectives run, those of them that are set."""
    return {name: environment[name] for name in _KEPT_SETTINGS if name in environment}


class KeyValues(Protocol):
    """What is needed of torch.distributed's stores."""

    def set(self, key: str, value: str) -> None:
        """Makes ``value`` the value of ``key``."""

    def get(self, key: str) -> bytes:
        """The value of a key that is there."""

    def check(self, keys: list[str]) -> bool:
        """Whether all of ``keys`` are there."""


class _Outcome(msgspec.Struct):
    failure: Failure | None


class Peers:
    """The other ranks' parents, as this one sees them. A pass is named by a text of its own."""

    def __init__(
        self,
        context: RankContext,
        store: KeyValues,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.context = context
        self._store = store
        self._clock = clock
        self._sleep = sleep

    def group(self, what: str, timeout_s: int) -> GroupRequest:
        """What the worker of the pass ``what`` needs to meet those of the other ranks."""
        context = self.context
        return GroupRequest(
            rank=context.rank,
            world_size=context.world_size,
            local_rank=context.local_rank,
            address=context.address,
            port=context.port,
            prefix=f"{_prefix(context)}/workers/{what}",
            timeout_s=timeout_s,
        )

    def facts(self, environment: Mapping[str, str]) -> RankGroup:
        """What the manifest says of the ranks; ``environment`` is what the workers get."""
        return RankGroup(
            world_size=self.context.world_size,
            device=self.context.local_rank,
            settings=kept_settings(environment),
        )

    def after_first(self, task: Callable[[], None]) -> None:
        """Does ``task`` on rank 0; returns on every rank when it is done.

        Raises:
            GraphvizDashError: rank 0 was not heard of.
        """
        if self.context.rank == 0:
            task()
            self._store.set(_FIRST, "")
            return
        until = self._clock() + _START_S
        while not self._store.check([_FIRST]):
            if self._clock() > until:
                raise GraphvizDashError(f"Rank 0 did not begin within {_START_S:.0f} s.")
            self._sleep(_POLL_S)

    def settle(self, what: str, failure: Failure | None, during: Pass) -> Failure | None:
        """Tells how this rank's pass ended and waits for the others; the failure of the pass.

        A pass that failed on one rank failed on all of them: its collectives have no partner.
        """
        self._store.set(self._key(what, self.context.rank), _encode(failure))
        others = [rank for rank in range(self.context.world_size) if rank != self.context.rank]
        silent = self._wait(what, others)
        causes = [text for rank in others if (text := self._cause(what, rank)) is not None]
        causes += [f"rank {rank} did not say how its pass ended" for rank in silent]
        # What we ended because another failed says nothing new beside that failure.
        if not causes or (failure is not None and failure.error == ENDED):
            return failure
        listed = "; ".join(causes)
        if failure is None:
            return Failure(during, "RankFailed", listed, None, "")
        return msgspec.structs.replace(
            failure, message=f"{failure.message}\nOther ranks failed too: {listed}"
        )

    def _wait(self, what: str, others: list[int]) -> list[int]:
        """Waits for each rank to tell how its pass ended; those that never did."""
        until = self._clock() + _SETTLE_S
        waiting = others
        while waiting and self._clock() < until:
            waiting = [rank for rank in waiting if not self._store.check([self._key(what, rank)])]
            if waiting:
                # Short sleeps between questions, so that a signal is acted upon.
                self._sleep(_POLL_S)
        return waiting

    def failed(self, what: str) -> str | None:
        """How another rank's worker failed in the pass ``what``; None while none has."""
        for rank in range(self.context.world_size):
            if rank != self.context.rank and (cause := self._cause(what, rank)) is not None:
                return cause
        return None

    def _cause(self, what: str, rank: int) -> str | None:
        """How the pass failed on ``rank``; None if it did not, or has not told yet."""
        key = self._key(what, rank)
        if not self._store.check([key]):
            return None
        failure = msgspec.json.decode(self._store.get(key), type=_Outcome).failure
        if failure is None or failure.error == ENDED:
            return None
        lines = failure.message.strip().splitlines()
        where = f" at {failure.location}" if failure.location else ""
        return f"rank {rank} failed{where}: {failure.error}: {lines[0] if lines else ''}"

    def _key(self, what: str, rank: int) -> str:
        return f"parents/{what}/{rank}"


def _encode(failure: Failure | None) -> str:
    return msgspec.json.encode(_Outcome(failure)).decode()


def _prefix(context: RankContext) -> str:
    return f"graphviz-dash/{context.attempt}"


@contextmanager
def meeting(context: RankContext | None) -> Iterator[Peers | None]:
    """The peers of this rank; None where the collection has no ranks.

    Raises:
        MissingRequirementError: torch is not here, or is built without torch.distributed.
        GraphvizDashError: the ranks' store cannot be reached, or is lost.
    """
    if context is None:
        yield None
        return
    store = _Store(context)
    yield Peers(context, store)
    # The first to go may take the store with it, and one that goes with an exit code makes torchrun
    # end the others, which may still write.
    store.set(f"bye/{context.rank}", "")
    everyone = [f"bye/{rank}" for rank in range(context.world_size)]
    until = time.monotonic() + _SETTLE_S
    while not store.check(everyone) and time.monotonic() < until:
        time.sleep(_POLL_S)
    if context.rank == 0 and not context.hosted:
        time.sleep(_LAST_LOOK_S)


class _Store:
    """A store that all ranks reach: torchrun's own, or one that rank 0 keeps for as long."""

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
                _prefix(context),
                dist.TCPStore(
                    context.address,
                    context.port,
                    is_master=context.rank == 0 and not context.hosted,
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

    def _call_store(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except RuntimeError as error:  # what torch's stores raise, DistNetworkError among them
            first = (str(error).splitlines() or [""])[0]
            raise GraphvizDashError(
                f"The ranks' store at {self._where} cannot be reached: {first}"
            ) from error


def this_rank() -> RankContext | None:
    """Which rank this process is, by its environment (InputError as :func:`rank_context_of`)."""
    return rank_context_of(os.environ)
