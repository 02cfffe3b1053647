"""Each place of the code that reads or writes files is in a test whose files fail, or is listed
with its test here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from graphviz_dash.ingest.formats import debug_dot, graph_data
from tests import test_faults
from tests.file_places import ROOT, find_places, observe_places

_RECORDED: Final = (
    "tests/collectors/test_faults.py::test_the_exit_code_of_a_recorded_program_is_kept"
)
_MARKED: Final = "tests/collectors/test_faults.py::test_the_exit_code_of_a_marked_program_is_kept"
_MARKS: Final = (
    "tests/collectors/test_faults.py::test_marks_without_room_are_refused_and_leave_no_file"
)
_FULL_PASS: Final = (
    "tests/collectors/test_robust.py::"
    "test_a_disk_that_is_full_during_a_pass_is_one_line_with_what_was_kept"
)
_KILLED: Final = (
    "tests/collectors/program/test_killed.py::"
    "test_a_program_killed_at_any_write_leaves_what_was_flushed"
)
_SUMMARIES: Final = "tests/ingest/test_summaries.py::test_a_full_disk_is_no_error"
_CACHE: Final = "tests/test_faults.py::test_a_cache_that_fails_costs_time_only"
_WORKERS: Final = "tests/ingest/kineto/test_workers.py::test_a_worker_that_dies_is_one_clear_error"
_POLL: Final = "tests/collectors/test_faults.py::test_a_poll_survives_each_fault"

WRITES: Final[Mapping[str, Sequence[str]]] = {
    _RECORDED: (
        "collectors/program/bundle.py:write_runs",
        "collectors/program/command.py:_explain_refusal",
        "collectors/program/recovery.py:mark_unfinished",
    ),
    "tests/collectors/program/test_files.py::test_refusals_are_counted_and_leave_what_was_there": (
        "collectors/program/files.py:_write",
        "collectors/program/files.py:put",
    ),
    "tests/collectors/program/test_mapped_file.py::test_a_file_that_cannot_be_mapped_is_an_error": (
        "collectors/program/mapped_file.py:_map_file",
    ),
    _KILLED: (
        "collectors/program/inject/sitecustomize.py:write",
        "collectors/program/profiler_session.py:_write",
    ),
    _MARKED: ("collectors/replays/notes.py:_put",),
    _MARKS: (
        "collectors/replays/marks_file.py:__init__",
        "collectors/replays/marks_file.py:_allocate",
    ),
    # Results of a pass in a separate process, whose error ends the collection in one line.
    _FULL_PASS: (
        "collectors/ceilings/measure.py:main",
        "collectors/collection/pass_runs.py:_run_observers",
        "collectors/collection/pass_runs.py:_run_pass",
        "collectors/launch/processes.py:run_process",
        "collectors/launch/run.py:main",
        "collectors/passes/capture.py:run",
        "collectors/passes/clean.py:run",
        "collectors/passes/executor.py:build_step",
        "collectors/passes/observers.py:run",
        "collectors/passes/worker.py:main",
        "collectors/passes/worker.py:record",
        "collectors/predict/run.py:_run_workloads",
        "collectors/predict/worker.py:_time_workload",
        "collectors/predict/worker.py:report",
        "collectors/process/results.py:write_result",
        "collectors/replays/ask.py:prepare_check",
        "collectors/replays/worker.py:main",
    ),
    "tests/collectors/passes/test_trace_file.py::"
    "test_a_trace_that_is_cut_off_is_an_error_and_leaves_nothing": (
        "collectors/passes/trace_file.py:compress_trace",
    ),
    "tests/collectors/doctor/test_recovery.py::"
    "test_the_next_doctor_writes_what_a_killed_one_left": (
        "collectors/doctor/__main__.py:examine",
        "collectors/doctor/ask.py:examine_workload",
        "collectors/doctor/program.py:_write_compilation",
        "collectors/doctor/program.py:_write_report",
        "collectors/doctor/recovery.py:mark_unfinished",
        "collectors/doctor/worker.py:main",
        "collectors/doctor/worker.py:record",
        "graphviz_dash/features/doctor/command.py:_examine",
    ),
    "tests/bundle/test_files.py::test_a_call_that_fails_leaves_the_old_file_and_no_part": (
        "graphviz_dash/bundle/files.py:open_regular_file",
    ),
    "tests/bundle/test_write.py::test_a_full_disk_at_any_point_leaves_nothing": (
        "graphviz_dash/bundle/write.py:_flush_folder",
    ),
    # Into memory.
    "tests/exports/test_files.py::test_a_full_disk_names_the_file": (
        "graphviz_dash/exports/tables.py:format_csv",
        "graphviz_dash/exports/tables.py:format_parquet",
    ),
    _CACHE: (
        "graphviz_dash/ingest/cache.py:store",
        "graphviz_dash/ingest/cache_entry.py:write_entry",
    ),
    _WORKERS: (
        "graphviz_dash/ingest/kineto/worker.py:_write_fully",
        "graphviz_dash/ingest/kineto/workers.py:_create_shared_file",
    ),
    _SUMMARIES: (
        "graphviz_dash/ingest/summaries.py:_create",
        "graphviz_dash/ingest/summaries.py:_open",
    ),
    "tests/ui/state/test_uploads.py::test_each_fault_of_an_upload_leaves_nothing": (
        "graphviz_dash/ui/state/uploads.py:_create_experiment",
        "graphviz_dash/ui/state/uploads.py:_save_files",
    ),
    # No data: a null device, limits and priorities of a process.
    "tests/app/hosting/test_start.py::test_a_session_gives_way_if_the_system_allows_it": (
        "graphviz_dash/app/hosting/cards_client.py:lower_priority",
    ),
    "tests/app/cli/test_odd_arguments.py::test_closed_streams_are_no_error": (
        "graphviz_dash/app/cli/main.py:_replace_closed_streams",
    ),
    "tests/test_process_memory.py::test_a_system_that_does_not_say": (
        "graphviz_dash/importers/confined_process.py:_set_limits",
        "graphviz_dash/process_memory.py:reset_peak",
    ),
}
"""Places that no writer of :mod:`tests.test_faults` reaches, by the test in which they fail."""

READS: Final[Mapping[str, Sequence[str]]] = {
    "tests/collectors/test_unreadable_sources.py::test_lines_that_cannot_be_read_are_missing": (
        "collectors/collection/failures.py:_find_source_nodes",
        "collectors/collection/source_code.py:_read_file",
        "collectors/doctor/places.py:_read_source",
    ),
    "tests/collectors/test_unreadable_sources.py::test_callers_without_lines_keep_their_place": (
        "collectors/compiled/callers.py:add_callers",
    ),
    "tests/collectors/passes/test_kernel_parameters.py::"
    "test_events_without_readable_code_do_not_change": (
        "collectors/passes/kernel_parameters.py:_read_names",
    ),
    "tests/collectors/cupti/test_code_reader.py::test_files_that_cannot_be_read_are_skipped": (
        "collectors/cupti/code_files.py:list_code_files",
        "collectors/cupti/code_reader.py:_list_all_cubins",
        "collectors/cupti/code_reader.py:_list_library_cubins",
    ),
    _RECORDED: (
        "collectors/program/bundle.py:_find_written",
        "collectors/program/bundle.py:_read",
        "collectors/program/launcher.py:read_processes",
        "collectors/program/loop/reading.py:read_loop",
        "collectors/program/mapped_file.py:read_mapped_file",
    ),
    "tests/collectors/program/test_killed.py::"
    "test_a_command_killed_while_it_saves_loses_and_repeats_nothing": (
        "collectors/program/recovery.py:_finish",
        "collectors/program/recovery.py:list_running_processes",
    ),
    _MARKED: (
        "collectors/replays/notes.py:read_captures",
        "collectors/replays/notes.py:read_fates",
        "collectors/replays/notes.py:read_graphs",
        "collectors/replays/notes.py:read_process",
    ),
    _POLL: ("collectors/replays/marks_file.py:__init__",),
    # Requests and results of a separate process, whose error ends the command in one line.
    _FULL_PASS: (
        "collectors/ceilings/store.py:measure_in_process",
        "collectors/doctor/diagnose.py:_read_compilation",
        "collectors/doctor/diagnose.py:read_examination",
        "collectors/doctor/recovery.py:_finish",
        "collectors/doctor/worker.py:main",
        "collectors/launch/processes.py:run_process",
        "collectors/launch/run.py:main",
        "collectors/passes/worker.py:main",
        "collectors/predict/run.py:_read_optional",
        "collectors/predict/run.py:_write_bundles",
        "collectors/predict/worker.py:main",
        "collectors/process/results.py:read_json",
        "collectors/replays/ask.py:_check",
        "collectors/replays/worker.py:main",
    ),
    "tests/collectors/passes/test_trace_file.py::"
    "test_a_trace_that_is_cut_off_is_an_error_and_leaves_nothing": (
        "collectors/driver/bodies.py:_read_dot",
        "collectors/passes/trace_file.py:compress_trace",
        "collectors/passes/trace_file.py:export_trace",
    ),
    # Files of the system, which need not exist.
    "tests/test_process_memory.py::test_a_system_that_does_not_say": (
        "collectors/collection/environment.py:_read_cpu_name",
        "collectors/ledger/clock.py:read_process_start",
        "collectors/ledger/samples.py:read_host_bytes",
        "collectors/process/preload.py:_count_threads",
        "graphviz_dash/app/cli/main.py:_replace_closed_streams",
        "graphviz_dash/process_memory.py:_read_status",
        "graphviz_dash/process_memory.py:get_machine_memory",
    ),
    # Files of the package and of Streamlit; a text of the program's own source.
    "tests/test_package.py::test_every_file_of_the_packages_is_in_the_wheel": (
        "collectors/collection/source_code.py:_list_names",
        "graphviz_dash/analysis/prediction/calibration.py:load_shipped_calibration",
        "graphviz_dash/app/cli/docs.py:docs_command",
        "graphviz_dash/app/cli/docs.py:list_headings",
        "graphviz_dash/app/hosting/document.py:complete_document",
        "graphviz_dash/app/hosting/document.py:list_required_scripts",
        "graphviz_dash/app/hosting/documentation.py:_serve_built",
        "graphviz_dash/app/hosting/documentation.py:_serve_unbuilt",
        "graphviz_dash/app/hosting/policy.py:_build_streamlit_policy",
        "graphviz_dash/app/hosting/static_files.py:__call__",
        "graphviz_dash/app/report/report.py:render_report",
        "graphviz_dash/bundle/references.py:read_published_launch",
        "graphviz_dash/features/efficiency/analysis/ceilings_choice.py:load_shipped_ceilings",
        "graphviz_dash/ui/components/creation.py:create_component",
        "graphviz_dash/ui/components/scripts.py:_collect_modules",
    ),
    "tests/test_faults.py::test_each_read_of_a_bundle": (
        "graphviz_dash/bundle/parts.py:_decompress",
        "graphviz_dash/ingest/byte_stream.py:_recover_gzip",
    ),
    "tests/bundle/test_write.py::test_a_full_disk_at_any_point_leaves_nothing": (
        "graphviz_dash/bundle/staging.py:_lock_folder",
        "graphviz_dash/bundle/write.py:_flush_folder",
    ),
    "tests/test_faults.py::test_each_write": (
        "graphviz_dash/features/perfetto/trace/perfetto_check.py:_open_trace",
        "graphviz_dash/importers/archives.py:_copy_member",
        "graphviz_dash/importers/bundles.py:_copy_as_gzip",
    ),
    "tests/importers/test_confined.py::test_whatever_it_does_is_one_line": (
        "graphviz_dash/importers/confined_process.py:_import_upload",
    ),
    _CACHE: (
        "graphviz_dash/ingest/cache_entry.py:_read",
        "graphviz_dash/ingest/cache_entry.py:read_entry_info",
        "graphviz_dash/ingest/cache_entry.py:write_entry",
    ),
    _WORKERS: (
        "graphviz_dash/ingest/kineto/worker.py:main",
        "graphviz_dash/ingest/kineto/workers.py:__init__",
        "graphviz_dash/ingest/kineto/workers.py:receive_result",
    ),
    _SUMMARIES: ("graphviz_dash/ingest/summaries.py:_open",),
    # The recorder's guard handles errors in a program.
    "tests/collectors/program/test_recorder.py::test_the_bundle_reports_failures_of_the_recorder": (
        "collectors/program/recorder.py:_open_window",
    ),
}
"""Places that no reader of :mod:`tests.test_faults` reaches, by the test in which they fail."""


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (debug_dot, graph_data):
        monkeypatch.setattr(module, "demangle_names", lambda names: {name: name for name in names})


def test_each_writer_is_in_a_test_of_faults(tmp_path: Path) -> None:
    reached: set[str] = set()
    for name, prepare in test_faults.WRITERS.items():
        folders = tmp_path / name / "inputs", tmp_path / name / "output"
        for folder in folders:
            folder.mkdir(parents=True)
        write = prepare(folders[0])
        with observe_places(writes=True) as places:
            write(folders[1])
        reached |= places
    check_places(find_places(writes=True), reached, WRITES)


def test_each_reader_is_in_a_test_of_faults(tmp_path: Path) -> None:
    reached: set[str] = set()
    for read in iter_reads(tmp_path):
        with observe_places(writes=False) as places:
            read()
        reached |= places
    check_places(find_places(writes=False), reached, READS)


def iter_reads(folder: Path) -> Iterator[Callable[[], object]]:
    for name, prepare in test_faults.READERS.items():
        (folder / name).mkdir()
        yield prepare(folder / name)
    for name, build in test_faults.FOREIGN.items():
        (folder / f"foreign-{name}").mkdir()
        path = folder / f"foreign-{name}" / name
        path.write_bytes(build())
        yield lambda: test_faults.contents(path, path.parent)  # noqa: B023 - called immediately


def check_places(places: set[str], reached: set[str], listed: Mapping[str, Sequence[str]]) -> None:
    known = {place for names in listed.values() for place in names}
    assert places - reached - known == set(), "Add a fault test of these places, or list theirs"
    assert known - places == set(), "These places no longer exist"
    for test in listed:
        file, _, function = test.partition("::")
        assert function in list_functions(file), test


@cache
def list_functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


SOURCE = """
def written(path, content):
    path.write_bytes(content)
def renamed(path, target):
    path.replace(target)
def opened(path):
    with path.open("ab") as file, gzip.open(path, "wt") as other:
        os.fsync(file.fileno())
def in_a_database(path):
    sqlite3.connect(path)
def changed(text, record):
    replace(record, text=text.replace("a", "b"))
def read(path):
    with open(path) as file, path.open("rb") as other:
        return path.read_text()
"""


def test_places_are_found_in_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text(SOURCE)
    monkeypatch.setattr("tests.file_places.ROOT", tmp_path)
    monkeypatch.setattr("tests.file_places.PACKAGES", ("package",))

    def names(*, writes: bool) -> set[str]:
        return {place.partition(":")[2] for place in find_places(writes=writes)}

    assert names(writes=True) == {"written", "renamed", "opened", "in_a_database"}
    assert names(writes=False) == {"read", "in_a_database"}
