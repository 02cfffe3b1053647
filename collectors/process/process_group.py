"""Join the workers of all ranks in a process group for one pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from collectors.process.requests import GroupRequest
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError

_EXIT_TIMEOUT_S = 120.0


@contextmanager
def join_group(group: GroupRequest | None) -> Iterator[None]:
    """Set up the ranks' process group in torch.distributed; without ``group`` do nothing.

    On exit the ranks wait for each other, because another rank's last collective may still read
    this rank's memory.

    Raises:
        MissingRequirementError: The machine has no GPU for this rank.
        GraphvizDashError: Another rank did not finish.
    """
    if group is None:
        yield
        return
    select_device(group.local_rank)
    store = dist.PrefixStore(
        group.prefix,
        dist.TCPStore(
            group.address,
            group.port,
            is_master=False,
            timeout=timedelta(seconds=group.timeout_s),
            wait_for_workers=False,
        ),
    )
    dist.init_process_group(
        backend="cpu:gloo,cuda:nccl",
        store=store,
        rank=group.rank,
        world_size=group.world_size,
        timeout=timedelta(seconds=group.timeout_s),
    )
    yield
    torch.cuda.synchronize()
    _wait_for_all(store, group)


def select_device(local_rank: int) -> None:
    """Select the rank's GPU.

    Raises:
        MissingRequirementError: There is none.
    """
    count = torch.cuda.device_count()
    if local_rank >= count:
        raise MissingRequirementError(
            f"Local rank {local_rank} needs a separate GPU; this machine has {count}. "
            f"Start at most {count} ranks on it (--nproc-per-node {count})."
        )
    torch.cuda.set_device(local_rank)


def _wait_for_all(store: dist.Store, group: GroupRequest) -> None:
    store.set(f"done/{group.rank}", "")
    keys = [f"done/{rank}" for rank in range(group.world_size)]
    deadline = time.monotonic() + _EXIT_TIMEOUT_S
    while not store.check(keys):
        if time.monotonic() > deadline:
            raise GraphvizDashError(
                f"Another rank did not finish the pass within {_EXIT_TIMEOUT_S:.0f} s."
            )
        time.sleep(0.01)
