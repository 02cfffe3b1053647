from __future__ import annotations

import gzip
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.part_checks import check_loop
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import CapturedGraph, DriverResult, GraphNode, NodeKind
from graphviz_dash.model.loop import FamilyMember, KeyMethod, ProgramLoop, StepKind
from graphviz_dash.model.memory import Extent, LiveExtent, MemoryPass, Owner
from graphviz_dash.model.node_ids import GraphIds, NodeIdPass, NodeIdRow
from graphviz_dash.model.observers import ObservedSeries, Observer, ObserverPass
from graphviz_dash.model.recording import RecordedGraph, Recording
from graphviz_dash.model.run import ExecutionMode, GraphUpdate, GraphUpdates
from graphviz_dash.model.source_code import MAX_CODE_LENGTH, MAX_LINES, SourceCode
from graphviz_dash.model.timings import StepTiming
from tests.bundle.arbitrary import recordings
from tests.bundle.examples import (
    CLEAN,
    GRAPH,
    IDS,
    MANIFEST,
    MEMORY_PASS,
    NODE_IDS,
    RECORDING,
    write_bundle,
)
from tests.loops import SIZES, make_segmented, make_server
from tests.parallel_runs import PLAN


def bundle(folder: Path, **parts: Any) -> Path:
    return write_bundle(folder / "run", traces=(), **parts)


def test_written_ids_are_read(tmp_path: Path) -> None:
    found = read_bundle(bundle(tmp_path, replay_ids=IDS, node_ids=NODE_IDS))
    assert found.replay_ids == IDS
    assert found.node_ids == NODE_IDS
    run = load_run(found.path)
    assert (run.replay_ids, run.node_ids) == (IDS, NODE_IDS)


def test_a_bundle_without_ids_and_recording_is_read(tmp_path: Path) -> None:
    found = read_bundle(bundle(tmp_path))
    assert found.replay_ids == ()
    assert found.node_ids is None
    assert found.recording is None


def test_the_same_pass_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        bundle(tmp_path / name, node_ids=NODE_IDS)
    first, second = (
        hashlib.sha256((tmp_path / name / "run" / "node-ids.json.gz").read_bytes()).hexdigest()
        for name in ("a", "b")
    )
    assert first == second


BAD_IDS: dict[str, tuple[tuple[GraphIds, ...], str]] = {
    "unknown graph": ((GraphIds("graph-7", (1,), (0, 1, 2)),), "'graph-7'"),
    "twice": ((IDS[0], IDS[0]), "once"),
    "too few nodes": ((GraphIds("graph-0", (1,), (0, 1)),), "2 distinct ids"),
    "one id for two nodes": ((GraphIds("graph-0", (1,), (0, 1, 1)),), "2 distinct ids"),
}


@pytest.mark.parametrize(("ids", "found"), BAD_IDS.values(), ids=BAD_IDS)
def test_ids_that_fit_no_graph_are_refused(
    tmp_path: Path, ids: tuple[GraphIds, ...], found: str
) -> None:
    path = bundle(tmp_path, replay_ids=ids)
    with pytest.raises(InputError, match=found) as refusal:
        read_bundle(path)
    assert refusal.value.where.endswith("replay-ids.json")


def _with(**changes: Any) -> NodeIdPass:
    return replace(NODE_IDS, **changes)


BAD_PASSES: dict[str, tuple[NodeIdPass, str]] = {
    "look": (_with(rows=(NodeIdRow(0, 2, 0, 9, 0, 7, 0, 1),)), "look 9"),
    "launch": (_with(rows=(NodeIdRow(2, 2, 0, 0, 0, 7, 0, 1),)), "launch 2"),
    "step back": (_with(launch_steps=(1, 0)), "out of order"),
    "step beyond": (_with(launch_steps=(0, 2)), "out of order"),
    "no steps": (_with(steps=0, launch_steps=(1,), rows=()), "out of order"),
}


@pytest.mark.parametrize(("found", "told"), BAD_PASSES.values(), ids=BAD_PASSES)
def test_rows_that_point_at_nothing_are_refused(
    tmp_path: Path, found: NodeIdPass, told: str
) -> None:
    path = bundle(tmp_path, node_ids=found)
    with pytest.raises(InputError, match=told):
        read_bundle(path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"step_count": 2}, "3 rows of steps"),
        ({"back_to_back_count": 0}, "0 rows of back_to_back_ns"),
    ],
)
def test_processes_must_have_all_iterations_together(
    tmp_path: Path, changes: dict[str, int], told: str
) -> None:
    first, *others = CLEAN.processes
    processes = (replace(first, **changes), *others)
    path = bundle(tmp_path, clean=replace(CLEAN, processes=processes))
    with pytest.raises(InputError, match=told):
        read_bundle(path)


def test_iterations_are_divided_by_process() -> None:
    assert [len(steps) for steps in CLEAN.process_steps] == [1, 1]
    assert CLEAN.process_back_to_back_ns == (CLEAN.back_to_back_ns, ())
    alone = replace(CLEAN, processes=())
    assert alone.process_steps == (CLEAN.steps,)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda _: b"{}", "gzip"),
        (lambda content: content[:-12], "gzip"),
        (lambda _: gzip.compress(b"{}"), "missing required field"),
        (lambda _: gzip.compress(b'{"steps": '), "invalid JSON"),
    ],
)
def test_damage_is_an_input_error(
    tmp_path: Path, damage: Callable[[bytes], bytes], told: str
) -> None:
    file = tmp_path / "node-ids.json.gz"
    file.write_bytes(damage(gzip.compress(msgspec.json.encode(NODE_IDS))))
    with pytest.raises(InputError, match=told):
        _reread(tmp_path, file.read_bytes())


def _reread(folder: Path, content: bytes) -> None:
    """Reads a bundle whose node-ids.json.gz is ``content``, listed with its hash."""
    path = bundle(folder, node_ids=NODE_IDS)
    manifest = msgspec.json.decode((path / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        if entry["role"] == "node-ids":
            entry |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (path / "node-ids.json.gz").write_bytes(content)
    (path / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    read_bundle(path)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_PART_BYTES", 1000)
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(InputError, match="at most 1,000 bytes"):
        parts.NODE_IDS.read(file)


RECORDED = replace(
    MANIFEST,
    mode=ExecutionMode.RECORDED,
    workload=replace(MANIFEST.workload, seed=None),
)


def write_recording(folder: Path, recording: Recording) -> Path:
    return write_bundle(folder / "run", RECORDED, None, recording=recording)


def test_a_recording_is_read_as_written(tmp_path: Path) -> None:
    contents = read_bundle(write_recording(tmp_path, RECORDING))
    assert contents.recording == RECORDING
    assert contents.manifest.workload.seed is None
    assert contents.clean is None


@settings(deadline=None, max_examples=40)
@given(recordings)
def test_any_recording_is_read_as_written(recording: Recording) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert read_bundle(write_recording(Path(folder), recording)).recording == recording


def change_graph(**fields: object) -> RecordedGraph:
    graph: RecordedGraph = replace(RECORDING.graphs[0], **fields)
    return graph


@pytest.mark.parametrize(
    ("graphs", "found"),
    [
        ((change_graph(), change_graph()), "'graph-0' twice"),
        ((change_graph(nodes=4),), f"4 nodes of 'graph-0', which has {len(GRAPH.nodes)}"),
        ((change_graph(graph="graph-9"),), "3 nodes of 'graph-9', which is missing"),
        ((change_graph(window_replays=61),), "61 of 60 replays"),
    ],
)
def test_a_recording_that_contradicts_itself_is_refused(
    tmp_path: Path, graphs: tuple[RecordedGraph, ...], found: str
) -> None:
    wrong: Recording = replace(RECORDING, graphs=graphs)
    path = write_recording(tmp_path, wrong)
    with pytest.raises(InputError, match=r"recording\.json") as caught:
        read_bundle(path)
    assert found in str(caught.value)


def test_a_negative_number_of_steps_is_named(tmp_path: Path) -> None:
    wrong: Recording = replace(RECORDING, steps=-1)
    with pytest.raises(InputError, match=r"steps"):
        read_bundle(write_recording(tmp_path, wrong))


OTHER_GRAPH = replace(GRAPH, id="graph-1")
REFUSED = DriverResult("ERROR_NODE_TYPE_CHANGED", "graph-1", 2)
UPDATE = GraphUpdate("graph-0", "graph-1", REFUSED, (2_000, 2_100), (8_000, 9_000))


def write_update(path: Path, pair: GraphUpdate) -> Path:
    return write_bundle(path, graphs=(GRAPH, OTHER_GRAPH), updates=GraphUpdates((pair,)))


def test_updates_of_known_graphs_are_read(tmp_path: Path) -> None:
    assert read_bundle(write_update(tmp_path / "run", UPDATE)).updates == GraphUpdates((UPDATE,))


@pytest.mark.parametrize(
    "wrong",
    [
        replace(UPDATE, source_graph="graph-7"),
        replace(UPDATE, target_graph="graph-7"),
        replace(UPDATE, result=DriverResult("ERROR", "graph-1", 3)),
        replace(UPDATE, result=DriverResult("ERROR", "graph-7", 0)),
    ],
)
def test_an_update_of_an_absent_graph_or_node_is_refused(
    tmp_path: Path, wrong: GraphUpdate
) -> None:
    with pytest.raises(InputError, match=r"updates\.json"):
        read_bundle(write_update(tmp_path / "run", wrong))


def test_an_update_of_a_body_is_refused(tmp_path: Path) -> None:
    body = CapturedGraph("graph-0.1", (), (), "test", ("graph-0", 0))
    child = GraphNode(0, NodeKind.CHILD_GRAPH, None, ("graph-0.1",))
    holder = replace(GRAPH, nodes=(child, *GRAPH.nodes[1:]))
    pair = GraphUpdate("graph-0", "graph-0.1", DriverResult("SUCCESS"), (), ())
    path = write_bundle(tmp_path / "run", graphs=(holder, body), updates=GraphUpdates((pair,)))
    with pytest.raises(InputError, match="a top-level graph"):
        read_bundle(path)


OBSERVED_STEPS = (StepTiming(120, 10), StepTiming(130, 11))
ALONE = ObservedSeries(Observer.NONE, 0, None, OBSERVED_STEPS, 100, (), (), None)
WATCHED = ObservedSeries(
    Observer.NODE_LEVEL, 1, "cupti-python 13.0.1", OBSERVED_STEPS, 110, (90, 91), (80, 81), 6
)
OBSERVERS = ObserverPass(2, (ALONE, WATCHED))


def test_an_observer_pass_is_in_the_loaded_run(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "run", traces=(), observers=OBSERVERS)
    assert load_run(path).observers == OBSERVERS


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (ObserverPass(2, (WATCHED,)), "every series has an observer"),
        (ObserverPass(2, (ALONE, replace(WATCHED, steps=()))), "0 steps"),
        (ObserverPass(1, (ALONE,)), "2 rows of 'none'"),
        (ObserverPass(2, (ALONE, replace(WATCHED, device_ns=(1, 2, 3)))), "3 rows"),
    ],
)
def test_incomparable_observer_series_are_refused(
    tmp_path: Path, wrong: ObserverPass, found: str
) -> None:
    path = write_bundle(tmp_path / "run", observers=wrong)
    with pytest.raises(InputError, match=rf"observers\.json.*{found}"):
        read_bundle(path)


BAD_MEMORY = {
    "stages": (MEMORY_PASS.stages[1:], "start, build, warm-up, prepare, iterate"),
    "live_extents": ((LiveExtent(1, 0, 512, Owner.TENSORS),), "one of the 1 listed"),
    "graphs": (
        (replace(MEMORY_PASS.graphs[0], extents=(Extent(0, 512, 512),)),),
        "a range within its 2097152 bytes",
    ),
}


@pytest.mark.parametrize("field", BAD_MEMORY)
def test_impossible_values_of_a_memory_pass_are_refused(tmp_path: Path, field: str) -> None:
    value, expected = BAD_MEMORY[field]
    wrong: MemoryPass = replace(MEMORY_PASS, **{field: value})
    path = write_bundle(tmp_path / "run", memory_pass=wrong)
    with pytest.raises(InputError) as caught:
        read_bundle(path)
    assert expected in caught.value.expected
    assert caught.value.where.endswith("memory-pass.json")


def write_plan(folder: Path, **changes: Any) -> Path:
    with BundleWriter(folder / "run") as writer:
        writer.add(parts.PARALLEL, replace(PLAN, **changes))
        writer.commit(MANIFEST)
    return folder / "run"


def test_a_plan_is_read_as_written(tmp_path: Path) -> None:
    assert read_bundle(write_plan(tmp_path)).parallel == PLAN


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"streams": (0, 1)}, "2 streams and 3 waits of 3 operators"),
        ({"waits": ((2,), (), ())}, "operator 0 waits for"),
        ({"storages": PLAN.storages[:3]}, "operator 2 accesses a missing storage"),
        (
            {"storages": (*PLAN.storages[:3], replace(PLAN.storages[3], creator=9))},
            "a storage created by a missing operator",
        ),
    ],
)
def test_an_inconsistent_plan_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read_bundle(write_plan(tmp_path, **changes))


CODE = SourceCode("a test", {"train.py:3": "loss.backward()"}, {"lost.py": "it was not found"})


def write_code(folder: Path, code: SourceCode) -> Path:
    with BundleWriter(folder / "run") as writer:
        writer.add(parts.SOURCE_CODE, code)
        writer.commit(replace(MANIFEST, files=()))
    return folder / "run"


def test_source_code_is_read_as_written(tmp_path: Path) -> None:
    assert read_bundle(write_code(tmp_path, CODE)).source_code == CODE


@pytest.mark.parametrize(
    "lines",
    [
        {"train.py": "a file without a line"},
        {"train.py:3": "x" * (MAX_CODE_LENGTH + 1)},
        {f"train.py:{number}": "" for number in range(MAX_LINES + 1)},
    ],
    ids=["no line", "long", "many"],
)
def test_source_code_of_no_line_or_beyond_a_limit_is_refused(
    tmp_path: Path, lines: dict[str, str]
) -> None:
    folder = write_code(tmp_path, SourceCode("a test", lines))
    with pytest.raises(InputError):
        read_bundle(folder)


LOOP_FILE = Path("loop.json.gz")


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> ProgramLoop:
    found = read_bundle(make_server(tmp_path_factory.mktemp("server"), requests=(1, 3, 33))).loop
    assert found is not None
    return found


def test_a_loop_of_a_server_is_read_as_written(loop: ProgramLoop) -> None:
    assert [member.key for member in loop.families[0].members] == [(n,) for n in SIZES[::-1]]
    assert loop.steps.kind[-3:] == (StepKind.REPLAY, StepKind.REPLAY, StepKind.FALLBACK)
    assert (loop.steps.real_size[-3:], loop.steps.padded_size[-3:]) == ((1, 3, 33), (1, 4, None))
    check_loop(loop, (), LOOP_FILE)


def test_a_step_of_segments_is_one_member_of_many_graphs(tmp_path: Path) -> None:
    run = load_run(make_segmented(tmp_path, segments=3, repeats=2))
    assert run.loop is not None
    (member,) = run.loop.families[0].members
    assert member.graphs == ("graph-0", "graph-1", "graph-2") * 2
    assert set(run.loop.steps.kind) == {StepKind.SEGMENTS}


def with_member(loop: ProgramLoop, **changes: object) -> ProgramLoop:
    family = loop.families[0]
    member: FamilyMember = replace(family.members[0], **changes)
    return replace(loop, families=(replace(family, members=(member, *family.members[1:])),))


def with_steps(loop: ProgramLoop, **columns: object) -> ProgramLoop:
    return replace(loop, steps=replace(loop.steps, **columns))


BAD_LOOPS: dict[str, tuple[Callable[[ProgramLoop], ProgramLoop], str]] = {
    "graph": (lambda loop: with_member(loop, graphs=("graph-99",)), "graph-99"),
    "no graph": (lambda loop: with_member(loop, graphs=()), "graphs with costs"),
    "key": (lambda loop: with_member(loop, key=(1, 2)), "a key of 2 numbers"),
    "method": (lambda loop: with_member(loop, key=None, method=KeyMethod.LABEL), "method"),
    "axis": (
        lambda loop: replace(loop, families=(replace(loop.families[0], size_axis=1),)),
        "size axis 1",
    ),
    "twice": (lambda loop: replace(loop, graphs=(loop.graphs[0], *loop.graphs)), "twice"),
    "columns": (lambda loop: with_steps(loop, real_size=()), "real_size 0"),
    "seen": (lambda loop: replace(loop, step_count=1), "of 1 steps"),
    "clean": (lambda loop: replace(loop, clean_steps=1_000), "1,000 clean"),
    "window": (lambda loop: replace(loop, window_rows=(99,)), "window without a row"),
    "family": (lambda loop: with_steps(loop, family=(4,) * len(loop.steps.kind)), "family 4"),
    "member": (lambda loop: with_steps(loop, member=(64,) * len(loop.steps.kind)), "member 64"),
    "fallback": (lambda loop: with_steps(loop, member=(0,) * len(loop.steps.kind)), "fallback"),
    "time": (lambda loop: with_steps(loop, end_ns=(0,) * len(loop.steps.kind)), "ends before"),
}


@pytest.mark.parametrize(("change", "found"), BAD_LOOPS.values(), ids=BAD_LOOPS)
def test_a_loop_that_contradicts_itself_is_refused(
    loop: ProgramLoop, change: Callable[[ProgramLoop], ProgramLoop], found: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_loop(change(loop), (), LOOP_FILE)
    assert found in str(caught.value)
