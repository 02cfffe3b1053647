from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import fsspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graphviz_dash.errors import InputError
from graphviz_dash.features.ranks.fleet_import import (
    CHECKSUM_FILE,
    Fleet,
    collect_fleet,
    compute_answers,
    is_fleet,
    read_fleet,
    write_fleet,
)
from graphviz_dash.importers.locations import find_locations
from graphviz_dash.importers.tasks import create_executor
from tests.builders import make_run
from tests.importers.fleets import fleet_of, rank, threads, uneven_fleet


class TestTables:
    @pytest.fixture
    def fleet(self, tmp_path: Path) -> Fleet:
        return uneven_fleet(tmp_path / "traces")

    def test_tables_are_kept_and_read_again(self, fleet: Fleet, tmp_path: Path) -> None:
        write_fleet(fleet, tmp_path / "tables")
        assert is_fleet(tmp_path / "tables")
        again = read_fleet(tmp_path / "tables")
        assert compute_answers(again) == compute_answers(fleet)
        assert all(again.tables[name].equals(table) for name, table in fleet.tables.items())

    @settings(
        max_examples=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=3))
    def test_any_damage_to_a_table(
        self, fleet: Fleet, tmp_path: Path, places: list[tuple[float, int]]
    ) -> None:
        """Polars itself gives up in the middle of some damaged files, or ends the process."""
        write_fleet(fleet, tmp_path / "tables")
        file = tmp_path / "tables" / "ranks.parquet"
        written = file.read_bytes()
        content = bytearray(written)
        for place, byte in places:  # mostly behind the columns, where the file describes itself
            content[-1 - int(place**2 * (len(content) - 1))] = byte
        file.write_bytes(content)
        with pytest.raises(InputError) if content != written else nullcontext():
            read_fleet(tmp_path / "tables")

    @pytest.mark.parametrize("error", [pl.exceptions.PanicException, pl.exceptions.ComputeError])
    def test_a_table_at_which_polars_gives_up(
        self, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type
    ) -> None:
        def giving_up(*_: object, **__: object) -> None:
            raise error("called `Option::unwrap()` on a `None` value")

        write_fleet(fleet, tmp_path / "tables")
        monkeypatch.setattr(pl, "read_parquet", giving_up)
        with pytest.raises(InputError, match="a table written by graphviz-dash fleet"):
            read_fleet(tmp_path / "tables")

    def test_a_damaged_table(self, fleet: Fleet, tmp_path: Path) -> None:
        write_fleet(fleet, tmp_path / "tables")
        (tmp_path / "tables" / "ranks.parquet").write_bytes(b"PAR1 no")
        with pytest.raises(InputError, match="a table written by graphviz-dash fleet"):
            read_fleet(tmp_path / "tables")

    def test_tables_of_another_version(self, fleet: Fleet, tmp_path: Path) -> None:
        tables = {**fleet.tables, "ranks": pl.DataFrame({"name": ["x"]})}
        write_fleet(replace(fleet, tables=tables), tmp_path / "tables")
        with pytest.raises(InputError, match="unexpected columns"):
            read_fleet(tmp_path / "tables")
        (tmp_path / "tables" / CHECKSUM_FILE).unlink()
        with pytest.raises(
            InputError, match="tables written by this version of graphviz-dash fleet"
        ):
            read_fleet(tmp_path / "tables")


def test_an_unreadable_trace_is_reported_and_the_rest_is_imported(tmp_path: Path) -> None:
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


def test_an_unreadable_trace_is_reported_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "damaged.json").write_text('{"traceEvents": [{"ph": "X", "cat": [1]}]}')
    fleet = collect_fleet(find_locations([str(tmp_path)]), partial(create_executor, None, 1))
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
    fleet = collect_fleet(places, partial(create_executor, None, 2))
    assert fleet.tables["ranks"].height == 3


def test_programs_of_one_rank_each_are_jobs_of_their_own() -> None:
    fleet = fleet_of(Path("sample_traces/recorded-megatron"))
    assert [(answer.job or "").partition(",")[0] for answer in compute_answers(fleet)] == [
        "full-iteration",
        "local",
    ]
    assert [answer.ranks for answer in compute_answers(fleet)] == [1, 1]
