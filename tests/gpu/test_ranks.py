from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.model.run import Failure, Pass
from tests.gpu.test_collect import events

ITERATIONS = 8
TRACED = 3
PROCESSES = 2
WORKLOADS = "tests.gpu.rank_workloads"
OPTIONS = (
    f"--iterations={ITERATIONS}",
    f"--traced-iterations={TRACED}",
    "--warmup=3",
    f"--processes={PROCESSES}",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def plain_environment() -> dict[str, str]:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {key: value for key, value in os.environ.items() if key not in names}


def torchrun(
    output: Path, ranks: int, *options: str, workload: str = "tp-transformer"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run"),
            *(f"--nproc-per-node={ranks}", f"--master-port={free_port()}"),
            *("-m", "collectors", f"--workload={workload}", f"--output={output}"),
            *(*OPTIONS, *options),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=plain_environment(),
    )


NCCL_ON_ONE_GPU = {
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_MNNVL_ENABLE": "0",
    "NCCL_RAS_ENABLE": "0",
    # One channel: the kernels of two processes take turns on the GPU, and each waits for the other.
    "NCCL_MAX_NCHANNELS": "1",
}
"""NCCL refuses two ranks of one host on one GPU. Ranks that name other hosts talk over sockets."""


def start_by_hand(output: Path, workload: str, *options: str) -> list[subprocess.Popen[str]]:
    """Start two ranks on one GPU without a launcher: each has local rank 0 of a separate host."""
    port = free_port()
    return [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "collectors", f"--workload={workload}"),
                *(f"--output={output}", *OPTIONS, *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=plain_environment()
            | NCCL_ON_ONE_GPU
            | {
                "NCCL_HOSTID": f"rank-{rank}",
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        )
        for rank in range(2)
    ]


def by_hand(output: Path, workload: str, *options: str) -> list[tuple[int, str]]:
    ranks = start_by_hand(output, workload, *options)
    try:
        texts = [rank.communicate(timeout=150)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, text) for rank, text in zip(ranks, texts, strict=True)]


def two_ranks(
    output: Path, *options: str, workload: str = "tp-transformer"
) -> list[tuple[int, str]]:
    """Run two ranks over NCCL; without a second GPU on one, where times mean nothing. Return exit
    code and stderr of each, or of torchrun."""
    import torch

    if torch.cuda.device_count() < 2:
        return by_hand(output, workload, *options)
    done = torchrun(output, 2, *options, workload=workload)
    return [(done.returncode, done.stderr)]


def both(output: Path, mode: str) -> tuple[BundleContents, BundleContents]:
    first, second = (read_bundle(output / f"{mode}-rank{rank}") for rank in range(2))
    return first, second


def failure_of(bundle: BundleContents) -> Failure:
    assert bundle.manifest.status == "failed"
    (failure,) = bundle.manifest.failures
    assert failure.stage is Pass.CLEAN
    return failure


def check_rank(bundle: BundleContents, rank: int, ranks: int) -> None:
    manifest = bundle.manifest
    assert manifest.status == "complete", manifest.failures
    assert manifest.rank == rank
    assert manifest.group is not None
    assert manifest.group.world_size == ranks
    assert manifest.group.settings["NCCL_NVLS_ENABLE"] == "0"
    assert manifest.environment.nccl is not None
    assert bundle.clean is not None
    assert len(bundle.clean.steps) == ITERATIONS
    assert len(bundle.clean.processes) == PROCESSES


@pytest.mark.timeout(300)
def test_one_rank_under_torchrun(tmp_path: Path) -> None:
    done = torchrun(tmp_path / "x", 1, "--modes=graph")
    assert done.returncode == 0, done.stderr
    bundle = read_bundle(tmp_path / "x" / "graph-rank0")
    check_rank(bundle, 0, 1)
    assert bundle.manifest.command[:3] == ("torchrun", "--nproc-per-node", "1")
    assert len(bundle.graphs) == 1
    # Alone there is nothing to reduce, and a sum of one term launches no kernel.
    assert not [e for e in events(bundle.replay_trace) if "nccl" in e.get("name", "").lower()]
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["graph-rank0"]


@pytest.mark.timeout(300)
def test_without_torchrun_it_is_the_command_collect(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "collectors", "--workload=tp-transformer"),
            *("--modes=eager", f"--output={tmp_path / 'x'}", *OPTIONS),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=plain_environment(),
    )
    assert done.returncode == 0, done.stderr
    bundle = read_bundle(tmp_path / "x" / "eager")
    assert bundle.manifest.rank is None
    assert bundle.manifest.group is None
    assert bundle.manifest.command[:3] == ("python", "-m", "collectors")


@pytest.mark.timeout(300)
def test_two_ranks_meet_in_every_pass(tmp_path: Path) -> None:
    codes = by_hand(tmp_path / "x", f"{WORKLOADS}:healthy", "--modes=graph")
    assert [code for code, _ in codes] == [0, 0], codes
    for rank, bundle in enumerate(both(tmp_path / "x", "graph")):
        check_rank(bundle, rank, 2)
        assert len(bundle.graphs) == 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("workload", "error", "text"),
    [
        ("raises_on_rank_1", "ValueError", "rank 1 has had enough"),
        ("killed_on_rank_1", "ProcessDied", "SIGKILL"),
    ],
)
def test_the_failure_of_a_rank_is_in_the_bundles_of_all(
    tmp_path: Path, workload: str, error: str, text: str
) -> None:
    codes = by_hand(tmp_path / "x", f"{WORKLOADS}:{workload}", "--modes=eager")
    assert [code for code, _ in codes] == [1, 1], codes
    first, second = both(tmp_path / "x", "eager")
    cause = failure_of(second)
    assert cause.error == error
    assert text in cause.message
    told = failure_of(first)
    assert "rank 1" in told.message
    assert text in told.message
    assert first.clean is None
    assert [path.name for path in (tmp_path / "x").iterdir() if path.name.startswith(".")] == []


@pytest.mark.timeout(300)
def test_ranks_that_hang_are_ended(tmp_path: Path) -> None:
    codes = by_hand(tmp_path / "x", f"{WORKLOADS}:sleeps_for_ever", "--modes=eager", "--timeout=25")
    assert [code for code, _ in codes] == [1, 1], codes
    for bundle in both(tmp_path / "x", "eager"):
        assert "exceeded 25 s" in failure_of(bundle).message


@pytest.mark.timeout(300)
def test_terminated_ranks_leave_nothing_behind(tmp_path: Path) -> None:
    ranks = start_by_hand(tmp_path / "x", f"{WORKLOADS}:sleeps_for_ever", "--modes=eager")
    until = time.monotonic() + 60
    while time.monotonic() < until and len(list((tmp_path / "x").glob("*/eager-clean-0"))) < 2:
        time.sleep(0.1)
    for rank in ranks:
        rank.send_signal(signal.SIGTERM)
    for rank in ranks:
        rank.communicate(timeout=60)
    assert [rank.returncode for rank in ranks] == [130, 130]
    assert list((tmp_path / "x").iterdir()) == []


def need_two_gpus() -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA GPUs: ranks that share one take turns, so times mean nothing")


def all_reduces(bundle: BundleContents) -> list[dict[str, Any]]:
    """The kernels of all-reduces in the replay trace, by start."""
    found = [
        event
        for event in events(bundle.replay_trace)
        if event.get("cat") == "kernel" and "AllReduce" in event["name"]
    ]
    return sorted(found, key=lambda event: float(event["ts"]))


@pytest.mark.timeout(300)
def test_two_ranks_split_the_layers(tmp_path: Path) -> None:
    from collectors.workloads.tp_transformer import LAYERS

    ranks = two_ranks(tmp_path / "x", "--modes=eager,graph")
    assert not any(code for code, _ in ranks), ranks
    for mode in ("eager", "graph"):
        for rank, bundle in enumerate(both(tmp_path / "x", mode)):
            check_rank(bundle, rank, 2)
            # Two halves of each layer, forward and backward; three settling steps come before.
            assert len(all_reduces(bundle)) == 4 * LAYERS * (TRACED + 3)


@pytest.mark.timeout(300)
def test_a_late_rank_makes_the_other_wait(tmp_path: Path) -> None:
    need_two_gpus()
    done = torchrun(tmp_path / "x", 2, "--modes=graph", workload=f"{WORKLOADS}:late_rank_1")
    assert done.returncode == 0, done.stderr
    first, second = (all_reduces(bundle) for bundle in both(tmp_path / "x", "graph"))
    assert len(first) == len(second) == 6 * (TRACED + 3)
    spins = [
        float(event["dur"])
        for event in events(both(tmp_path / "x", "graph")[1].replay_trace)
        if event.get("cat") == "kernel" and "spin" in event["name"]
    ]
    waited = [
        float(early["dur"]) - float(late["dur"])
        for early, late in zip(first[2::6], second[2::6], strict=True)
    ]
    assert median(waited) == pytest.approx(median(spins), rel=0.35)


@pytest.mark.timeout(300)
def test_a_rank_that_waits_in_nccl_is_ended(tmp_path: Path) -> None:
    workload = f"{WORKLOADS}:leaves_rank_0_in_nccl"
    ranks = two_ranks(tmp_path / "x", "--modes=eager", workload=workload)
    assert all(code for code, _ in ranks)
    first, second = both(tmp_path / "x", "eager")
    assert failure_of(second).error == "ValueError"
    assert "rank 1 has had enough" in failure_of(first).message
