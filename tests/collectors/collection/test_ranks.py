from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collectors.collection import collect as module
from collectors.collection import machine, pass_runs
from collectors.collection.collect import collect
from collectors.collection.collection import CollectedRun
from collectors.collection.ranks import Peers, RankContext, get_worker_settings, read_rank_context
from collectors.process.requests import FAILURE_FILE, PassRequest
from collectors.process.subprocesses import WorkerLimit, run_worker
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import Failure, Pass
from tests.collectors.collection.pass_results import ENVIRONMENT, write_results
from tests.collectors.collection.test_collect import collection, ended

TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "0",
}


class MemoryStore:
    """torch's store, as far as the parents use it."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes:
        return self.values[key].encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)


def context(rank: int, world_size: int = 2) -> RankContext:
    return RankContext(rank, world_size, rank, world_size, "localhost", 29500, True, 0)


def test_a_rank_is_told_by_torchruns_variables() -> None:
    found = read_rank_context(TORCHRUN)
    assert found == RankContext(1, 4, 1, 2, "localhost", 29500, True, 0)
    assert found.launcher == ("torchrun", "--nnodes", "2", "--nproc-per-node", "2")
    assert read_rank_context({}) is None
    # Job schedulers set some of them for a single process.
    assert read_rank_context({"MASTER_ADDR": "localhost", "LOCAL_RANK": "0"}) is None


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"MASTER_PORT": ""}, "without MASTER_PORT"),
        ({"RANK": "one"}, "RANK=one"),
        ({"RANK": "-1"}, "RANK=-1"),
        ({"RANK": "4"}, "RANK 4"),
    ],
)
def test_variables_that_make_no_sense_are_refused(change: dict[str, str], found: str) -> None:
    with pytest.raises(InputError, match=found):
        read_rank_context(TORCHRUN | change)


def test_multicast_is_off_unless_the_user_set_it() -> None:
    assert get_worker_settings({}) == {"NCCL_NVLS_ENABLE": "0"}
    assert get_worker_settings({"NCCL_NVLS_ENABLE": "1"}) == {}


def test_only_variables_that_name_no_machine_are_kept() -> None:
    environment = {"NCCL_ALGO": "Ring", "NCCL_SOCKET_IFNAME": "eth7", "NCCL_DEBUG_FILE": "/log"}
    assert Peers(context(0), MemoryStore()).build_rank_group(environment).settings == {
        "NCCL_ALGO": "Ring"
    }


def test_a_silent_rank_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    peers = Peers(context(0, 3), MemoryStore(), lambda: now[0], sleep)
    failure = peers.exchange_outcome("eager-clean", None, Pass.CLEAN)
    assert failure is not None
    assert failure.error == "RankFailed"
    assert failure.message == (
        "rank 1 did not report how its pass ended; rank 2 did not report how its pass ended"
    )
    assert 100 < now[0] < 200


def test_passes_do_not_share_a_meeting_place() -> None:
    peers = Peers(context(1), MemoryStore())
    names = [peers.build_group_request(name, 60).prefix for name in ("eager-clean", "eager-traced")]
    again = Peers(RankContext(1, 2, 1, 2, "localhost", 29500, True, 1), MemoryStore())
    assert len({*names, again.build_group_request("eager-clean", 60).prefix}) == 3


Fate = Callable[[PassRequest], "subprocess.CompletedProcess[str] | None"]


@pytest.fixture
def both_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Fate], Any]:
    """Runs two ranks in two threads, with workers that meet the given fate."""
    store = MemoryStore()

    @contextmanager
    def meeting(context: RankContext) -> Iterator[Peers]:
        yield Peers(context, store)

    monkeypatch.setattr(module, "join_ranks", meeting)

    def run(fate: Fate) -> list[tuple[CollectedRun, ...]]:
        def worker(
            *arguments: str,
            limit: WorkerLimit | None = None,
            **_: object,
        ) -> subprocess.CompletedProcess[str]:
            if arguments[0] == "--environment":
                Path(arguments[1]).write_bytes(msgspec.json.encode(ENVIRONMENT))
                return ended(0)
            request = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=PassRequest)
            fatal = fate(request)
            if fatal is not None and fatal.returncode == STUCK:
                # A worker that waits in a collective until it is killed.
                assert limit is not None
                until = time.monotonic() + 20
                while not limit.check() and time.monotonic() < until:
                    time.sleep(0.01)
                return ended(-9)
            if fatal is None:
                write_results(request)
            return fatal or ended(0)

        monkeypatch.setattr(machine, "run_pass_worker", worker)
        results: dict[int, tuple[CollectedRun, ...]] = {}

        def one(rank: int) -> None:
            results[rank] = collect(
                collection(tmp_path / "x"), lambda line, is_failure=False: None, context(rank)
            )

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return [results[rank] for rank in range(2)]

    return run


STUCK = 99


def test_each_rank_writes_its_bundles(both_ranks: Callable[[Fate], Any], tmp_path: Path) -> None:
    first, second = both_ranks(lambda _: None)
    assert [run.path.name for run in (*first, *second)] == [
        "eager-rank0",
        "graph-rank0",
        "eager-rank1",
        "graph-rank1",
    ]
    for rank, run in ((0, first[1]), (1, second[1])):
        manifest = read_bundle(run.path).manifest
        assert manifest.rank == rank
        assert manifest.group is not None
        assert (manifest.group.world_size, manifest.group.device) == (2, rank)
        assert manifest.group.settings["NCCL_NVLS_ENABLE"] == "0"
    assert len(list((tmp_path / "x").iterdir())) == 4


def test_a_rank_that_is_stuck_is_ended_and_knows_why(
    both_ranks: Callable[[Fate], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pass_runs, "WorkerLimit", lambda seconds, failed: WorkerLimit(seconds, failed, 0.2)
    )

    def fate(request: PassRequest) -> subprocess.CompletedProcess[str] | None:
        assert request.group is not None
        if request.mode == "eager" or request.kind is not Pass.CAPTURE:
            return None
        if request.group.rank == 0:
            return ended(STUCK)
        failure = Failure(Pass.CAPTURE, "ValueError", "had enough", "model.py:3", "tb")
        (Path(request.out) / FAILURE_FILE).write_bytes(msgspec.json.encode(failure))
        return ended(1)

    first, second = both_ranks(fate)
    assert not first[0].failures
    (waited,) = first[1].failures
    assert waited.error == "Ended"
    assert "rank 1 failed at model.py:3: ValueError: had enough" in waited.message
    (cause,) = second[1].failures
    assert cause.error == "ValueError"
    # That the other was ended because of it is no cause of its own.
    assert cause.message == "had enough"
    # Later passes still run on both.
    assert all(read_bundle(runs[1].path).replay_trace is not None for runs in (first, second))


def test_a_pass_that_failed_on_one_rank_failed_on_all(both_ranks: Callable[[Fate], Any]) -> None:
    def fate(request: PassRequest) -> subprocess.CompletedProcess[str] | None:
        assert request.group is not None
        return ended(-9) if request.group.rank == 1 else None

    first, second = both_ranks(fate)
    for mode in range(2):
        (told,) = first[mode].failures
        assert told.error == "RankFailed"
        assert "rank 1 failed: ProcessDied: the process was ended by signal SIGKILL" in told.message
        assert second[mode].failures[0].error == "ProcessDied"
        assert read_bundle(first[mode].path).clean is None


def test_a_limit_is_reached_by_time_or_by_another_ranks_failure() -> None:
    now, cause = [0.0], [None, "rank 1 failed"]
    late = WorkerLimit(60, clock=lambda: now[0])
    alone = WorkerLimit(None, lambda: cause[now[0] >= 100], clock=lambda: now[0])
    reached = []
    for now[0] in (0, 60, 61, 100, 109, 111):
        reached.append((late.check(), alone.check()))
    assert [one for one, _ in reached] == [False, False, True, True, True, True]
    assert [one for _, one in reached] == [False] * 5 + [True]
    assert late.reason == "the pass exceeded 60 s and was killed"
    assert (late.error, alone.error) == ("TimedOut", "Ended")
    assert alone.reason == "killed to avoid waiting forever: rank 1 failed"


def test_a_worker_is_killed_at_its_limit() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    now = itertools.count()
    done = run_worker(command, os.environ, WorkerLimit(3, clock=lambda: float(next(now))))
    assert done.returncode == -9
