"""Many ranks at once: summaries, the three questions, and workers that die."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType

import fsspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphviz_dash.errors import InputError
from graphviz_dash.importers.fleet import (
    Fleet,
    answers,
    collect_fleet,
    is_fleet,
    read_fleet,
    write_fleet,
)
from graphviz_dash.importers.locations import find_locations
from graphviz_dash.importers.many import NotImported, import_many
from graphviz_dash.importers.tasks import DIED, executor_for, run_all, without_main
from tests.builders import make_run
from tests.importers.dying import die_always, die_once
from tests.importers.fleets import fleet_of, rank, the_answer, threads, uneven_fleet
from tests.importers.test_bundles import capture, replay


class TestTables:
    @pytest.fixture
    def fleet(self, tmp_path: Path) -> Fleet:
        return uneven_fleet(tmp_path / "traces")

    def test_tables_are_kept_and_read_again(self, fleet: Fleet, tmp_path: Path) -> None:
        write_fleet(fleet, tmp_path / "tables")
        assert is_fleet(tmp_path / "tables")
        again = read_fleet(tmp_path / "tables")
        assert answers(again) == answers(fleet)
        assert all(again.tables[name].equals(table) for name, table in fleet.tables.items())

    @settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=3))
    def test_any_damage_to_a_table(
        self, fleet: Fleet, tmp_path: Path, places: list[tuple[float, int]]
    ) -> None:
        """Polars itself gives up in the middle of some damaged files."""
        write_fleet(fleet, tmp_path / "tables")
        file = tmp_path / "tables" / "ranks.parquet"
        content = bytearray(file.read_bytes())
        for place, byte in places:  # mostly behind the columns, where the file describes itself
            content[-1 - int(place**2 * (len(content) - 1))] = byte
        file.write_bytes(content)
        with suppress(InputError):
            read_fleet(tmp_path / "tables")

    @pytest.mark.parametrize("error", [pl.exceptions.PanicException, pl.exceptions.ComputeError])
    def test_a_table_at_which_polars_gives_up(
        self, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type
    ) -> None:
        def giving_up(*_: object, **__: object) -> None:
            raise error("called `Option::unwrap()` on a `None` value")

        write_fleet(fleet, tmp_path / "tables")
        monkeypatch.setattr(pl, "read_parquet", giving_up)
        with pytest.raises(InputError, match="a table that graphviz-dash fleet wrote"):
            read_fleet(tmp_path / "tables")

    def test_a_damaged_table(self, fleet: Fleet, tmp_path: Path) -> None:
        write_fleet(fleet, tmp_path / "tables")
        (tmp_path / "tables" / "ranks.parquet").write_bytes(b"PAR1 no")
        with pytest.raises(InputError, match="a table that graphviz-dash fleet wrote"):
            read_fleet(tmp_path / "tables")
        pl.DataFrame({"name": ["x"]}).write_parquet(tmp_path / "tables" / "ranks.parquet")
        with pytest.raises(InputError, match="other columns"):
            read_fleet(tmp_path / "tables")


def test_what_cannot_be_read_is_told_and_spoils_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    rank(folder, 0)
    (folder / "bad.json").write_text("{]")
    (folder / "notes.txt").write_text("no trace, and need not be")
    fleet = fleet_of(folder)
    assert fleet.tables["ranks"]["name"].to_list() == ["rank0"]
    (failed,) = fleet.failed
    assert failed.source.endswith("bad.json")


def test_a_bundle_whose_trace_leads_elsewhere(tmp_path: Path) -> None:
    """A link could lead out of the folder, and a pipe would never end."""
    secret = rank(tmp_path, 0)
    for name in ("link", "pipe"):
        make_run(tmp_path / "exp", "graph", name=name)
        trace = tmp_path / "exp" / name / "traces" / "replay.json.gz"
        trace.unlink()
        if name == "link":
            trace.symlink_to(secret)
        else:
            os.mkfifo(trace)
    fleet = fleet_of(tmp_path / "exp")
    reasons = sorted(one.reason for one in fleet.failed)
    assert len(reasons) == 2
    assert "link" in reasons[0]
    assert "missing" in reasons[1]


def test_what_a_process_cannot_read_is_told_with_its_own_reason(tmp_path: Path) -> None:
    (tmp_path / "damaged.json").write_text('{"traceEvents": [{"ph": "X", "cat": [1]}]}')
    fleet = collect_fleet(find_locations([str(tmp_path)]), partial(executor_for, None, 1))
    (unread,) = fleet.failed
    assert "(1 event; no text as cat (1))" in unread.reason


def test_names_are_as_long_as_they_must_be(tmp_path: Path) -> None:
    for node in ("n0", "n1"):
        rank(tmp_path / node, 0)
    assert fleet_of(tmp_path).tables["ranks"]["name"].to_list() == ["n0/rank0", "n1/rank0"]


def test_an_address(tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    system.pipe_file("/fleet/rank0.json.gz", rank(tmp_path, 0).read_bytes())
    fleet = collect_fleet(find_locations(["memory://fleet"]), threads)
    assert fleet.tables["ranks"]["source"].to_list() == ["memory://fleet/rank0.json.gz"]
    system.rm("/fleet", recursive=True)


def test_local_processes(tmp_path: Path) -> None:
    for number in range(3):
        rank(tmp_path / "traces", number)
    places = find_locations([str(tmp_path / "traces")])
    fleet = collect_fleet(places, partial(executor_for, None, 2))
    assert fleet.tables["ranks"].height == 3


class TestMany:
    def test_each_run_by_itself(self, tmp_path: Path) -> None:
        folder = tmp_path / "files"
        folder.mkdir()
        capture(folder / "a-capture.json.gz")
        replay(folder / "a-replay.json.gz")
        replay(folder / "b.json.gz")
        (folder / "bad.dot").write_text("digraph {}")
        (folder / "notes.txt").write_text("hello")
        results = list(import_many(find_locations([str(folder)]), tmp_path / "out", threads))
        made = sorted(one.path.name for one in results if not isinstance(one, NotImported))
        assert made == ["a", "b"]
        reasons = [one.reason for one in results if isinstance(one, NotImported)]
        assert len(reasons) == 2

    def test_the_same_again_goes_on_where_it_was(self, tmp_path: Path) -> None:
        folder = tmp_path / "files"
        folder.mkdir()
        replay(folder / "a.json.gz")
        places = find_locations([str(folder)])
        (first,) = import_many(places, tmp_path / "out", threads)
        replay(folder / "b.json.gz")
        again = list(import_many(find_locations([str(folder)]), tmp_path / "out", threads))
        assert first in again
        assert len(again) == 2
        replay(folder / "a.json.gz", ("other",))
        (refused,) = import_many(places, tmp_path / "out", threads)
        assert isinstance(refused, NotImported)
        assert "a run is already there" in refused.reason

    def test_long_names_and_names_that_are_alike_are_runs_of_their_own(
        self, tmp_path: Path
    ) -> None:
        folder = tmp_path / "files"
        source = rank(tmp_path, 0).read_bytes()
        folder.mkdir()
        long = "meta-llama_Llama-3.3-70B-Instruct_tp8_pp2_dp4_ep1_cudagraph-full_and_piecewise_rank"
        for name in (f"{long}{1}.1773709679453551615.pt", f"{long}{2}.1773709679453551615.pt"):
            (folder / f"{name}.trace.json.gz").write_bytes(source)
        for name in ("step 1", "step+1", "step-1"):
            (folder / f"{name}.json.gz").write_bytes(source)
        made = list(import_many(find_locations([str(folder)]), tmp_path / "out", threads))
        assert not [one for one in made if isinstance(one, NotImported)]
        names = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert len(names) == 5
        assert max(map(len, names)) < 100
        again = list(import_many(find_locations([str(folder)]), tmp_path / "out", threads))
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
        assert not [one for one in again if isinstance(one, NotImported)]

    def test_files_of_one_name_in_two_folders(self, tmp_path: Path) -> None:
        for node in ("n0", "n1"):
            (tmp_path / "files" / node).mkdir(parents=True)
            replay(tmp_path / "files" / node / "t-1.json.gz", (node,))
        results = import_many(find_locations([str(tmp_path / "files")]), tmp_path / "out", threads)
        assert {getattr(one, "path", tmp_path).name for one in results} == {"n0-t-1", "n1-t-1"}


def _said(item: tuple[int, Path], reason: str) -> int:
    assert reason == DIED
    return -item[0]


class TestWorkersThatDie:
    def test_a_local_one_takes_nothing_with_it(self, tmp_path: Path) -> None:
        items = [(number, tmp_path) for number in range(6)]
        found = run_all(die_once, items, partial(executor_for, None, 2), _said)
        assert sorted(found) == list(range(6))
        assert (tmp_path / "died").exists()

    def test_a_file_that_kills_each_worker_is_told(self, tmp_path: Path) -> None:
        items = [(number, tmp_path) for number in range(4)]
        found = run_all(die_always, items, partial(executor_for, None, 1), _said)
        assert sorted(found) == [-2, 0, 1, 3]


def test_a_dask_cluster_loses_nothing_when_a_worker_is_killed(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    folder = tmp_path / "traces"
    for number in range(40):
        rank(folder, number, slow_us=80 if number == 5 else 0)
    with (
        without_main(),
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
        make = partial(executor_for, cluster.scheduler_address)
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
    with executor_for(None, workers=1) as pool:
        assert pool.submit(os.getpid).result() != os.getpid()
    assert sys.modules["__main__"] is main
