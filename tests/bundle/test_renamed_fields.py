"""Bundles of earlier format versions, as they were recorded, without their traces."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from graphviz_dash.bundle.calibration import read_calibration
from graphviz_dash.bundle.launch import read_launch
from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.bundle.references import find_reference_launches
from graphviz_dash.bundle.renamed_fields import RENAMED_FIELDS, rename_fields
from graphviz_dash.errors import InputError
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.model.compilation import CompileWarning, GraphBreak
from graphviz_dash.model.launch import Topology
from graphviz_dash.model.parallel import Attempt, ParallelPlan
from graphviz_dash.model.recording import Recording
from graphviz_dash.model.replay_check import (
    CheckedOperator,
    ForeignNodes,
    MemoryFate,
    NodeOwner,
    ReplayStop,
    TensorDifference,
    ValueCheck,
    WrongElements,
)
from graphviz_dash.model.run import FORMAT_VERSION
from scripts.pack_samples import pack_bundle
from tests.bundle.forging import edit_manifest

_CASES = Path(__file__).parents[1] / "cases/formats"
_NAMES = sorted(path.name for path in _CASES.iterdir())
_CALIBRATION = Path(__file__).parents[2] / "graphviz_dash/analysis/prediction/calibration-h200.json"


def _load(case: str, file: str) -> Any:
    content = (_CASES / case / file).read_bytes()
    return json.loads(gzip.decompress(content) if file.endswith(".gz") else content)


@pytest.mark.parametrize("case", _NAMES)
def test_recorded_bundles_of_earlier_versions_are_read(case: str) -> None:
    assert read_bundle(_CASES / case).manifest.version == int(case.partition("-")[0])


def test_each_earlier_version_has_a_bundle() -> None:
    """Version 7 only added files to version 6."""
    assert {int(name.partition("-")[0]) for name in _NAMES} == set(range(1, FORMAT_VERSION - 1))


@pytest.mark.parametrize("case", ["6-compiled", "6-updates"])
def test_version_7_has_the_names_of_version_6(case: str, tmp_path: Path) -> None:
    bundle = shutil.copytree(_CASES / case, tmp_path / case)
    edit_manifest(bundle, lambda manifest: manifest.update(version=7))
    earlier, later = read_bundle(_CASES / case), read_bundle(bundle)
    assert (later.graphs, later.loop, later.updates) == (
        earlier.graphs,
        earlier.loop,
        earlier.updates,
    )


_VALUES: list[tuple[str, str, Callable[[Any], object], Callable[[Any], object]]] = [
    (
        "1-compile",
        "graphs/graph-0.json",
        lambda graph: graph["read_by"],
        lambda run: run.graphs[0].source_api,
    ),
    (
        "1-failed",
        "manifest.json",
        lambda manifest: [failure["during"] for failure in manifest["failures"]],
        lambda run: [failure.stage for failure in run.manifest.failures],
    ),
    (
        "2-doctor",
        "doctor.json",
        lambda doctor: [
            (finding["seen"], finding["first"], finding["place"]["first"], finding["calls"])
            for finding in doctor["findings"]
            if finding["place"]
        ],
        lambda run: [
            (f.detected_by, f.ends_capture, f.location.first_line, f.calls_per_step)
            for f in run.doctor.findings
            if f.location
        ],
    ),
    (
        "2-graph",
        "memory-pass.json",
        lambda memory: (
            [row["bytes"] for row in memory["at_peak"]],
            [graph["kept_bytes"] for graph in memory["graphs"]],
            [row[:3] for row in memory["live"]],
        ),
        lambda run: (
            [row.bytes for row in run.memory_pass.owners_at_peak],
            [graph.retained_bytes for graph in run.memory_pass.graphs],
            [[row.segment, row.start, row.end] for row in run.memory_pass.live_extents],
        ),
    ),
    (
        "2-graph",
        "node-ids.json.gz",
        lambda ids: (len(ids["looks"]), ids["graphs"][0]["launched_as"]),
        lambda run: (len(run.node_ids.signatures), list(run.node_ids.graphs[0].executable_ids)),
    ),
    (
        "2-observers",
        "observers.json",
        lambda observers: [series["observer"] for series in observers["observed"]],
        lambda run: [series.observer for series in run.observers.series],
    ),
    (
        "2-recorded",
        "recording.json",
        lambda recording: (recording["rung"], recording["marked"], recording["window"]),
        lambda run: (
            run.recording.boundary_kind,
            run.recording.window_steps,
            run.recording.requested_window_steps,
        ),
    ),
    (
        "3-eager",
        "clean.json",
        lambda clean: [(p["began_ns"], p["gpu"]["slowed_by"]) for p in clean["processes"]],
        lambda run: [(p.start_unix_ns, list(p.gpu.throttle_reasons)) for p in run.clean.processes],
    ),
    (
        "4-parallel",
        "parallel.json.gz",
        lambda plan: (
            plan["stream"],
            plan["line"]["expected_ns"],
            plan["chosen"],
            [storage["maker"] for storage in plan["storages"]],
        ),
        lambda run: (
            list(run.parallel.streams),
            run.parallel.serial.predicted_ns,
            run.parallel.selected_streams,
            [storage.creator for storage in run.parallel.storages],
        ),
    ),
    (
        "4-compiled",
        "compilation.json.gz",
        lambda compiled: [(f["resumes"], f["place"]["line"]) for f in compiled["frames"]],
        lambda run: [(f.is_continuation, f.location.line) for f in run.compilation.frames],
    ),
    (
        "6-compiled",
        "loop.json.gz",
        lambda loop: (
            loop["steps_seen"],
            loop["window_steps"],
            loop["steps"]["begin_ns"],
            loop["steps"]["padded"],
            [graph["own_bytes"] for graph in loop["graphs"]],
        ),
        lambda run: (
            run.loop.step_count,
            list(run.loop.window_rows),
            list(run.loop.steps.start_ns),
            list(run.loop.steps.padded_size),
            [graph.exclusive_bytes for graph in run.loop.graphs],
        ),
    ),
    (
        "6-updates",
        "updates.json",
        lambda updates: [
            (pair["of"], pair["by"], pair["answer"]["result"]) for pair in updates["pairs"]
        ],
        lambda run: [
            (pair.source_graph, pair.target_graph, pair.result.result) for pair in run.updates.pairs
        ],
    ),
]


@pytest.mark.parametrize(("case", "file", "earlier", "present"), _VALUES)
def test_values_of_earlier_names_are_values_of_present_names(
    case: str,
    file: str,
    earlier: Callable[[Any], object],
    present: Callable[[BundleContents], object],
) -> None:
    assert present(read_bundle(_CASES / case)) == earlier(_load(case, file))


@pytest.mark.parametrize(
    ("kind", "earlier", "present"),
    [
        (Recording, "ended", "reached_end"),
        (Attempt, "line_ns", "serial_ns"),
        (Attempt, "expected_bytes", "predicted_bytes"),
        (ParallelPlan, "narrow_line_ns", "narrow_serial_ns"),
        (ParallelPlan, "fitted_bytes", "workspace_bytes"),
        (GraphBreak, "whole_frame", "runs_eagerly"),
        (CompileWarning, "times", "count"),
        (Topology, "other", "middle_node"),
        (CheckedOperator, "place", "location"),
        (NodeOwner, "place", "location"),
        (MemoryFate, "free_place", "free_location"),
        (ReplayStop, "capture_place", "capture_location"),
        (WrongElements, "differing", "differing_elements"),
        (ValueCheck, "differing", "difference_count"),
        (TensorDifference, "noise", "eager_difference"),
        (ForeignNodes, "before", "next_operator"),
    ],
)
def test_optional_fields_that_no_recorded_case_has(kind: type, earlier: str, present: str) -> None:
    renamed = rename_fields(json.dumps({earlier: 7}).encode(), kind)
    assert json.loads(renamed) == {present: 7}


@pytest.mark.parametrize("record", RENAMED_FIELDS)
def test_the_table_names_fields_of_the_record(record: type[msgspec.Struct]) -> None:
    names = RENAMED_FIELDS[record]
    assert set(names.values()) <= set(record.__struct_encode_fields__)
    assert not set(names) & set(record.__struct_encode_fields__)


@pytest.mark.parametrize("case", _NAMES)
def test_a_packed_bundle_has_the_present_version_and_the_same_content(
    case: str, tmp_path: Path
) -> None:
    bundle = shutil.copytree(_CASES / case, tmp_path / case)
    pack_bundle(bundle)
    before, after = read_bundle(_CASES / case), read_bundle(bundle)
    assert after.manifest.version == FORMAT_VERSION
    described = msgspec.structs.replace(after.manifest, version=1, files=())
    assert described == msgspec.structs.replace(before.manifest, version=1, files=())
    assert msgspec.structs.replace(after, path=before.path, manifest=before.manifest) == before


def test_the_present_version_refuses_earlier_names(tmp_path: Path) -> None:
    bundle = shutil.copytree(_CASES / "2-doctor", tmp_path / "run")
    edit_manifest(bundle, lambda manifest: manifest.update(version=FORMAT_VERSION))
    with pytest.raises(InputError, match="unknown field"):
        read_bundle(bundle)


def test_an_earlier_name_next_to_the_present_one_is_refused() -> None:
    renamed = rename_fields(b'{"times": 1, "count": 2, "text": "", "lines": []}', CompileWarning)
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(renamed, type=CompileWarning)


@pytest.mark.parametrize("content", [b"[]", b'{"frames": {"place": 1}}', b'{"frames": [[]]}'])
def test_content_of_another_shape_is_reported_by_decoding(content: bytes) -> None:
    kind = type(read_bundle(_CASES / "4-compiled").compilation)
    assert json.loads(rename_fields(content, kind)) == json.loads(content)


def test_calibrations_of_version_2_are_read(tmp_path: Path) -> None:
    present = json.loads(_CALIBRATION.read_bytes())
    earlier = {**present, "version": 2, "recorded": present.pop("recorded_at")}
    del earlier["recorded_at"]
    earlier["checks"] = earlier.pop("holdout_samples")
    file = tmp_path / "calibration.json"
    file.write_text(json.dumps(earlier))
    read = read_calibration(file)
    assert isinstance(read, Calibration)
    assert msgspec.structs.replace(read, version=3) == read_calibration(_CALIBRATION)


def test_launch_recordings_of_version_2_are_read(tmp_path: Path) -> None:
    (folder,) = find_reference_launches().values()
    recording = json.loads((folder / "launch.json").read_bytes())
    for series in recording["series"]:
        series["topology"]["other"] = series["topology"].pop("middle_node")
    (tmp_path / "launch.json").write_text(json.dumps({**recording, "version": 2}))
    assert msgspec.structs.replace(read_launch(tmp_path), version=3) == read_launch(folder)
