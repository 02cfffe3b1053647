from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.comparison import compare
from graphviz_dash.app.cli.main import main
from graphviz_dash.cli.text import output
from graphviz_dash.ingest.cache_folder import CACHE_VARIABLE
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.narrative import experiment
from tests.builders import make_experiment, make_run
from tests.cli.fixtures import Invoke
from tests.samples import SAMPLES

Listing = Callable[..., str]


@pytest.fixture
def listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Listing:
    """The output of ``ls``, equal with and without the catalogue."""

    def get_listing(*options: str) -> str:
        outputs = []
        for cache in (str(tmp_path / "cache"), "off"):
            monkeypatch.setenv(CACHE_VARIABLE, cache)
            code = main(["ls", str(tmp_path / "served"), *options])
            outputs.append((code, *capsys.readouterr()))
        assert outputs[0] == outputs[1]
        return outputs[0][1]

    # Files of this test are seconds old.
    monkeypatch.setattr(time, "time_ns", lambda: 1 << 62)
    return get_listing


def test_the_catalogue_follows_changed_added_and_removed_experiments(
    tmp_path: Path, listing: Listing, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = tmp_path / "served"
    make_experiment(served / "a")
    make_experiment(served / "b")
    first = listing()
    reads: list[str] = []
    original = compare.compare_runs
    monkeypatch.setattr(compare, "compare_runs", lambda e: (reads.append(e.name), original(e))[1])
    assert listing() == first
    assert reads == ["a", "b"]  # without the catalogue
    reads.clear()
    make_run(served / "b", "compile")
    make_experiment(served / "c")
    shutil.rmtree(served / "a")
    changed = listing()
    assert reads == ["b", "c", "b", "c"]
    assert "served/b/compile" in changed
    assert "served/a/" not in changed
    clean = served / "b" / "graph" / "clean.json"
    clean.write_bytes(clean.read_bytes()[:-9])
    assert "unreadable" in listing()
    document = json.loads(listing("--json"))
    assert [experiment["name"] for experiment in document["experiments"]] == ["b", "c"]


def test_a_moved_experiment_keeps_no_old_path(tmp_path: Path, listing: Listing) -> None:
    make_experiment(tmp_path / "served" / "a")
    listing()
    (tmp_path / "served" / "a").rename(tmp_path / "served" / "z")
    (experiment,) = json.loads(listing("--json"))["experiments"]
    assert experiment["path"].endswith("served/z")
    assert all(run["path"].startswith(experiment["path"]) for run in experiment["runs"])


def test_a_long_table_is_laid_out_like_a_short_one(
    tmp_path: Path, listing: Listing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        make_experiment(tmp_path / "served" / f"größe-{number}-実験")
    short = listing()
    monkeypatch.setattr(output, "_MAX_RICH_ROWS", 0)
    assert listing() == short


class TestLs:
    def test_a_damaged_bundle_is_listed_and_reported(self, folder: Path, invoke: Invoke) -> None:
        (folder / "sample_traces/mlp-train/graph/clean.json").write_text("{}")
        result = invoke("ls", "sample_traces")
        assert result.code == 2
        assert "unreadable" in result.out
        assert "sample_traces/sync-in-step" in result.out
        (line,) = result.err.splitlines()
        assert "/sample_traces/mlp-train/graph/clean.json: 2 bytes; " in line
        document = json.loads(invoke("ls", "sample_traces", "--json").out)
        (damaged,) = document["experiments"][0]["unreadable"]
        assert damaged["path"] == "sample_traces/mlp-train/graph"

    def test_a_folder_without_experiments_is_reported(self, tmp_path: Path, invoke: Invoke) -> None:
        result = invoke("ls", str(tmp_path))
        assert (result.code, result.out) == (0, "")
        assert result.err == f"No experiments under {tmp_path}\n"
        assert json.loads(invoke("ls", str(tmp_path), "--json").out)["experiments"] == []

    def test_a_program_that_its_launcher_began_alone_is_no_rank(self, invoke: Invoke) -> None:
        # Rank 0 of 1, as their manifests say.
        alone, several = SAMPLES / "recorded-megatron", SAMPLES / "tp-transformer"
        assert " rank " not in invoke("ls", str(alone)).out
        shown = invoke("show", str(alone / "local")).out
        assert "ranks " not in shown
        assert "rank 0" not in shown
        assert "eager rank 1" in invoke("ls", str(several)).out
        about = replace(load_experiment(several, traces=False), description=None)
        assert experiment.describe_experiment(about).startswith(
            "The workload tp-transformer on 2 ranks: "
        )

    def test_a_mean_is_marked(self, invoke: Invoke) -> None:
        means = invoke("ls", str(SAMPLES / "compile-fixes")).out
        assert means.count(" (mean)") == 4
        assert "505 µs (mean)" in means
        untimed = next(
            line
            for line in invoke("ls", str(SAMPLES / "recorded-resnet")).out.splitlines()
            if "attributed" in line
        )
        assert "(mean)" not in untimed
        for name in ("compile-generate", "mlp-train"):
            assert "(mean)" not in invoke("ls", str(SAMPLES / name)).out

    @pytest.mark.usefixtures("folder")
    def test_figures_equal_those_of_compare(self, invoke: Invoke) -> None:
        listed = json.loads(invoke("ls", "sample_traces", "--json").out)["experiments"][0]
        compared = json.loads(invoke("compare", "sample_traces/mlp-train", "--json").out)
        for run, other in zip(listed["runs"], compared["runs"], strict=True):
            for metric, figure in run["metrics"].items():
                assert figure == other["metrics"][metric]
