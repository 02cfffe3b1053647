from __future__ import annotations

import gzip
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.bundle.files import can_follow
from graphviz_dash.bundle.launch import find_launches
from graphviz_dash.bundle.schema import SUPPORTED_VERSIONS
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.ingest.load import (
    add_replay_trace,
    find_experiments,
    load_experiment,
    load_run,
    search_experiments,
)
from graphviz_dash.model.run import ExecutionMode, Failure, Pass
from tests.builders import STEP, chain, fork_join, make_experiment, make_run
from tests.faults import locked

FAILURE = Failure(Pass.CAPTURE, "RuntimeError", "not permitted when stream is capturing", None, "")


def test_a_run_loads_whole(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "toy", "graph", traced=4))
    assert (run.name, run.mode) == ("graph", ExecutionMode.GRAPH)
    assert run.clean is not None
    assert len(run.clean.steps) == 21
    assert run.memory is not None
    assert [len(graph.nodes) for graph in run.graphs] == [len(STEP)]
    assert run.capture_trace is not None
    assert run.replay_trace is not None
    assert run.replay_trace.gpu.height == 4 * len(STEP)
    marks = run.replay_trace.annotations["name"].to_list()
    assert marks == [f"graphviz_dash.step#{step}" for step in range(4)]


def test_a_failed_run_loads_with_its_reason(tmp_path: Path) -> None:
    run = load_run(make_run(tmp_path / "toy", "graph", failure=FAILURE))
    assert run.manifest.failures == (FAILURE,)
    assert (run.clean, run.memory, run.graphs, run.capture_trace, run.replay_trace) == (
        None,
        None,
        (),
        None,
        None,
    )


def test_runs_come_in_the_order_of_modes_then_ranks(tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    make_run(folder, "compile")
    make_run(folder, "graph", name="a-graph-1", rank=1)
    make_run(folder, "graph", name="z-graph-0", rank=0)
    make_run(folder, "eager", name="zz-eager")
    experiment = load_experiment(folder)
    assert experiment.name == "toy"
    assert [run.name for run in experiment.runs] == [
        "zz-eager",
        "z-graph-0",
        "a-graph-1",
        "compile",
    ]


@pytest.mark.parametrize("work", [chain(300), fork_join(4, 5)], ids=["chain", "fork-join"])
def test_made_graphs_agree_with_made_replays(tmp_path: Path, work: tuple[Any, ...]) -> None:
    run = load_run(make_run(tmp_path / "toy", "graph", work=work, traced=2))
    assert run.replay_trace is not None
    assert run.replay_trace.info.problems == ()
    assert run.replay_trace.gpu.height == 2 * len(run.graphs[0].nodes)
    assert run.capture_trace is not None
    launches = run.capture_trace.runtime.filter(run.capture_trace.runtime["external_id"] > 0)
    assert launches.height == len(work)


def test_other_files_and_staging_folders_are_passed_over(tmp_path: Path) -> None:
    folder = make_experiment(tmp_path / "toy")
    (folder / "notes.txt").write_text("mine")
    (folder / "plots").mkdir()
    (folder / "graph").rename(folder / ".graph.tmp123")
    assert [run.name for run in load_experiment(folder).runs] == ["eager"]


def test_the_current_folder_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make_experiment(tmp_path / "toy", ["eager"]))
    assert load_experiment(Path(".")).name == "toy"


def test_experiments_are_found_to_a_depth(tmp_path: Path) -> None:
    make_experiment(tmp_path / "b", ["eager"])
    make_experiment(tmp_path / "one" / "a", ["eager"])
    make_experiment(tmp_path / "one" / "two" / "three" / "four" / "deep", ["eager"])
    make_experiment(tmp_path / ".hidden" / "h", ["eager"])
    (tmp_path / "loop").symlink_to(tmp_path)
    assert find_experiments(tmp_path) == [tmp_path / "b", tmp_path / "one" / "a"]
    assert len(find_experiments(tmp_path, depth=5)) == 3
    assert find_experiments(tmp_path / "b", depth=0) == [tmp_path / "b"]
    assert find_experiments(tmp_path / "b" / "eager") == []


def test_links_to_experiments_elsewhere_are_followed_once(tmp_path: Path) -> None:
    served, far = tmp_path / "served", tmp_path / "far"
    make_experiment(served / "own", ["eager"])
    make_experiment(far / "kept" / "linked", ["eager"])
    make_experiment(far / "kept" / "below" / "deep" / "deeper", ["eager"])
    (served / "one").symlink_to(far / "kept" / "linked")
    (served / "two").symlink_to(far / "kept" / "linked")
    # A loop over two links, and one that leads nowhere.
    (served / "some").symlink_to(far)
    (far / "back").symlink_to(served)
    (served / "broken").symlink_to(far / "absent")
    assert find_experiments(served) == [served / "one", served / "own"]
    (served / "some").unlink()
    (served / "some").symlink_to(far / "kept")
    assert served / "some" / "linked" in find_experiments(served)
    assert search_experiments(served, links=False).experiments == (served / "own",)
    assert load_experiment(served / "one").runs


def test_a_link_of_another_account_leads_to_its_own_folders_alone() -> None:
    own, other, third = 1000, 1001, 1002
    assert can_follow(own, other, own)
    assert can_follow(0, other, own)
    assert can_follow(other, other, own)
    assert not can_follow(other, own, own)
    assert not can_follow(other, third, own)


def test_folders_that_may_not_be_entered_are_passed_over(tmp_path: Path) -> None:
    make_experiment(tmp_path / "a", ["eager"])
    make_experiment(tmp_path / "closed" / "b", ["eager"])
    with locked(tmp_path / "closed"):
        assert find_experiments(tmp_path) == [tmp_path / "a"]
        with pytest.raises(InputError, match="closed: permission denied"):
            load_experiment(tmp_path / "closed")
    with locked(tmp_path / "a" / "eager"), pytest.raises(InputError, match="no run"):
        load_experiment(tmp_path / "a")


REFUSED_FOLDERS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no folder": (lambda root: root / "absent", "no such folder"),
    "a file": (lambda root: root / "file", "a file; expected the folder of an experiment"),
    "an empty folder": (lambda root: root / "empty", "no run.*graphviz-dash collect"),
    "a single run": (lambda root: root / "toy" / "eager", r"a single run;.*Use .*toy instead"),
    "its parent folder": (
        lambda root: root,
        "no run directly in the folder;.*Experiments below it: toy",
    ),
    "too long a name": (lambda root: root / ("x" * 5_000), "expected the folder of an experiment"),
    "a loop of links": (lambda root: root / "loop", "expected the folder of an experiment"),
}


@pytest.mark.parametrize("name", REFUSED_FOLDERS)
def test_folders_without_runs_are_refused(tmp_path: Path, name: str) -> None:
    make_experiment(tmp_path / "toy", ["eager"])
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    path, expected = REFUSED_FOLDERS[name]
    with pytest.raises(InputError, match=expected):
        load_experiment(path(tmp_path))


def edit(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    change(manifest)
    (run / "manifest.json").write_text(json.dumps(manifest))


def replace_trace(run: Path, content: bytes) -> None:
    """Puts ``content`` in the place of the replay trace, with a manifest that agrees with it."""
    path = run / "traces" / "replay.json.gz"
    path.write_bytes(content)

    def agree(manifest: dict[str, Any]) -> None:
        for entry in manifest["files"]:
            if entry["role"] == "replay-trace":
                entry["bytes"] = len(content)
                entry["sha256"] = hashlib.sha256(content).hexdigest()

    edit(run, agree)


def entry(run: Path, **changes: Any) -> None:
    edit(run, lambda manifest: manifest["files"][-1].update(changes))


def link_away(run: Path) -> None:
    trace = run / "traces" / "replay.json.gz"
    trace.rename(run.parent / "elsewhere.json.gz")
    trace.symlink_to(run.parent / "elsewhere.json.gz")


DAMAGED_RUNS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda r: (r / "manifest.json").unlink(), "no manifest.json"),
    "empty manifest": (lambda r: (r / "manifest.json").write_bytes(b""), "invalid JSON"),
    "cut manifest": (lambda r: (r / "manifest.json").write_text('{"format": "gr'), "invalid JSON"),
    "binary manifest": (lambda r: (r / "manifest.json").write_bytes(b"\xff\xfe\0"), "manifest"),
    "newer version": (
        lambda r: edit(r, lambda m: m.update(version=SUPPORTED_VERSIONS[-1] + 1)),
        f"version {SUPPORTED_VERSIONS[-1] + 1}.*Install a newer",
    ),
    "foreign format": (lambda r: edit(r, lambda m: m.update(format="other")), "format 'other'"),
    "path with ..": (lambda r: entry(r, path="../../etc/passwd"), "fixed paths"),
    "absolute path": (lambda r: entry(r, path="/etc/passwd"), "fixed paths"),
    "path with a backslash": (lambda r: entry(r, path="traces\\replay.json.gz"), "fixed paths"),
    "path with NUL": (lambda r: entry(r, path="traces/replay.json.gz\0"), "fixed paths"),
    "trace is a link": (link_away, "a symbolic link"),
    "trace is missing": (lambda r: (r / "traces/replay.json.gz").unlink(), "missing"),
    "trace is a byte short": (
        lambda r: (r / "traces/replay.json.gz").write_bytes(
            (r / "traces/replay.json.gz").read_bytes()[:-1]
        ),
        "bytes; expected",
    ),
    "hash of another file": (lambda r: entry(r, sha256="0" * 64), "sha256"),
    "hash that is none": (lambda r: entry(r, sha256="zz"), "sha256|regex|pattern"),
    "negative size": (lambda r: entry(r, bytes=-1), "bytes"),
    "listed twice": (
        lambda r: edit(r, lambda m: m["files"].append(m["files"][-1])),
        "listed twice",
    ),
    "unknown field": (lambda r: edit(r, lambda m: m.update(shell="rm -rf /")), "shell"),
    "mode of no kind": (lambda r: edit(r, lambda m: m.update(mode="\x1b[31mfast")), "mode|enum"),
    "trace cut, hash right": (
        lambda r: replace_trace(r, gzip.compress(b'{"traceEvents": [{"ph": "X"')),
        "replay.json.gz: JSON ends unexpectedly",
    ),
    "trace is no trace, hash right": (
        lambda r: replace_trace(r, gzip.compress(b'{"hello": 1}')),
        "replay.json.gz: a JSON object without traceEvents",
    ),
    "clean.json of other types": (
        lambda r: (r / "clean.json").write_text('{"steps": "many"}'),
        "clean.json",
    ),
}


@pytest.mark.parametrize("name", DAMAGED_RUNS)
def test_a_damaged_run_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "toy", "graph")
    damage, expected = DAMAGED_RUNS[name]
    damage(run)
    started = time.process_time()
    with pytest.raises(InputError, match=expected) as caught:
        load_run(run)
    assert time.process_time() - started < 5
    assert str(caught.value).isprintable()
    assert str(run) in str(caught.value)
    if name != "no manifest":
        with pytest.raises(InputError):
            load_experiment(run.parent)


def test_limits_hold_for_the_traces_of_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "toy", "graph")
    with pytest.raises(InputError, match="limit events"):
        load_run(run, Limits(events=10))


def test_a_damaged_trace_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = make_experiment(tmp_path / "toy")
    trace = path / "graph" / "traces" / "replay.json.gz"
    content = bytearray(trace.read_bytes())
    content[-1] ^= 1
    trace.write_bytes(content)
    assert len(load_experiment(path, traces=False).runs) == 2
    with pytest.raises(InputError, match="sha256"):
        load_run(path / "graph", traces=False)
    with pytest.raises(InputError, match="sha256"):
        load_experiment(path)
    run = load_experiment(path, traces=False).runs[1]
    with pytest.raises(InputError, match="sha256"):
        add_replay_trace(run)
    # Of all that is read nothing is taken unseen.
    clean = path / "graph" / "clean.json"
    clean.write_bytes(clean.read_bytes()[:-1] + b" ")
    with pytest.raises(InputError, match="sha256"):
        load_experiment(path, traces=False)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to chown")
def test_another_accounts_links_to_runs_are_not_followed(tmp_path: Path) -> None:
    private = make_experiment(tmp_path / "private", ["eager", "graph"])
    served = tmp_path / "served"
    make_experiment(served / "own", ["eager"])
    (served / "own" / "graph").symlink_to(private / "graph")
    assert [run.name for run in load_experiment(served / "own").runs] == ["eager", "graph"]
    os.lchown(served / "own" / "graph", 1001, 1001)
    assert [run.name for run in load_experiment(served / "own").runs] == ["eager"]
    (problem,) = search_experiments(served).problems
    assert "graph: a link created by another account" in problem
    (private / "launch.json").write_text("{}", encoding="utf-8")
    (served / "launch.json").symlink_to(private / "launch.json")
    assert find_launches(served) == [served]
    os.lchown(served / "launch.json", 1001, 1001)
    assert find_launches(served) == []


def test_a_description_is_read_of_a_plain_file_alone(tmp_path: Path) -> None:
    folder = make_experiment(tmp_path / "toy", ["eager"])
    about = folder / "about.txt"
    about.write_bytes(b"one \xff line\nanother\n")
    assert load_experiment(folder).description == "one \N{REPLACEMENT CHARACTER} line"
    about.write_text("x" * 2_000, encoding="utf-8")
    assert len(load_experiment(folder).description or "") == 300
    secret = tmp_path / "secret"
    secret.write_text("password", encoding="utf-8")
    about.unlink()
    about.symlink_to(secret)
    assert load_experiment(folder).description is None
    about.unlink()
    os.mkfifo(about)
    assert load_experiment(folder).description is None
    about.unlink()
    about.mkdir()
    assert load_experiment(folder).description is None
