from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from graphviz_dash.features.ranks.fleet_import import (
    collect_fleet,
)
from graphviz_dash.importers.locations import find_locations
from graphviz_dash.importers.tasks import PROCESS_DIED, create_executor, hide_main_module, run_all
from tests.importers.dying import die_always, die_once
from tests.importers.fleets import rank, the_answer


class TestWorkersThatDie:
    def test_a_local_one_takes_nothing_with_it(self, tmp_path: Path) -> None:
        items = [(number, tmp_path) for number in range(6)]
        found = run_all(die_once, items, partial(create_executor, None, 2), _said)
        assert sorted(found) == list(range(6))
        assert (tmp_path / "died").exists()

    def test_a_file_that_kills_each_worker_is_reported(self, tmp_path: Path) -> None:
        items = [(number, tmp_path) for number in range(4)]
        found = run_all(die_always, items, partial(create_executor, None, 1), _said)
        assert sorted(found) == [-2, 0, 1, 3]


def test_workers_collect_garbage_rarely() -> None:
    code = "__import__('gc').get_threshold()[0]"
    (threshold,) = run_all(eval, [code], partial(create_executor, None, 1), _said)
    assert threshold >= 50_000


def test_a_dask_cluster_loses_nothing_when_a_worker_is_killed(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    folder = tmp_path / "traces"
    for number in range(40):
        rank(folder, number, slow_us=80 if number == 5 else 0, world=40)
    with (
        # Dask sets one thread each and more, for all processes that are started afterwards.
        mock.patch.dict(os.environ),
        hide_main_module(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
    ):
        with distributed.Client(cluster) as client:
            victim = next(iter(client.run(os.getpid).values()))
        killed = threading.Event()

        def tell(done: int, _: int) -> None:
            if done == 3:
                os.kill(victim, signal.SIGKILL)
                killed.set()
                time.sleep(0.1)

        places = find_locations([str(folder)])
        make = partial(create_executor, cluster.scheduler_address)
        fleet = collect_fleet(places, make, announce=tell)
    assert killed.is_set()
    assert fleet.failed == ()
    assert fleet.tables["ranks"].height == 40
    assert fleet.tables["ranks"]["name"].n_unique() == 40
    assert [one.rank for one in the_answer(fleet).slow] == [5]


def test_the_script_that_runs_here_is_not_run_again_in_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As Streamlit does: the script of a page takes the main module's place.
    script = tmp_path / "page.py"
    script.write_text("raise SystemExit(3)\n", encoding="utf-8")
    main = ModuleType("__main__")
    main.__file__ = str(script)
    monkeypatch.setitem(sys.modules, "__main__", main)
    with create_executor(None, workers=1) as pool:
        assert pool.submit(os.getpid).result() != os.getpid()
    assert sys.modules["__main__"] is main


def _said(item: tuple[int, Path], reason: str) -> int:
    assert reason == PROCESS_DIED
    return -item[0]
