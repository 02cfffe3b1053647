from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.order import FIRST, LongestFirst


def test_every_file_that_begins_early_is_there() -> None:
    files = [file for row in FIRST for file in row]
    assert [file for file in files if not (Path(__file__).parent / file).is_file()] == []
    assert len(set(files)) == len(files)


@pytest.mark.parametrize(
    "fixtures",
    ["dashboard|dashboard_tab|tab_of_dashboard", "made|made_tab", "rare|tab_of_rare"],
)
def test_files_that_share_a_server_share_a_process(fixtures: str) -> None:
    folder = Path(__file__).parent
    names = set(fixtures.split("|"))
    files = [path for path, arguments in _list_page_arguments().items() if names & arguments]
    rows = {number for number, row in enumerate(FIRST) for file in row if folder / file in files}
    early = {folder / file for row in FIRST for file in row}
    assert [path for path in files if path not in early] == []
    assert len(rows) == 1


@cache
def _list_page_arguments() -> dict[Path, set[str]]:
    """Names of arguments of tests and fixtures that are addresses or pages, by test file."""
    return {
        path: {
            argument.arg
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef)
            and (node.name.startswith("test_") or node.decorator_list)
            for argument in node.args.args
            if argument.annotation is not None
            and ast.unparse(argument.annotation) in ("str", "Page")
        }
        for path in Path(__file__).parent.rglob("test_*.py")
    }


class Process:
    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.received: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.received += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_two_processes_can_be_replaced_at_the_same_time() -> None:
    tests = [f"tests/test_{number}.py::test_{part}" for number in range(9) for part in range(3)]
    config: Any = SimpleNamespace(option=SimpleNamespace(), getvalue=lambda _: ["popen"] * 2)
    scheduler = LongestFirst(config, None)
    first: list[Any] = [Process("first"), Process("second")]
    others: list[Any] = [Process("third"), Process("fourth")]
    for process in first:
        scheduler.add_node(process)
        scheduler.add_node_collection(process, tests)
    scheduler.schedule()
    for process, other in zip(first, others, strict=True):
        assert scheduler.remove_node(process) == tests[process.received[0]]
        scheduler.add_node(other)
    for process in reversed(others):
        assert process.received == []
        scheduler.add_node_collection(process, tests)
        scheduler.schedule()
        assert process.received != []


FILES = [f"{file}.py::{name}" for file in ("a", "b", "c") for name in ("first", "second")]


@pytest.fixture
def scheduler() -> LongestFirst:
    config: Any = SimpleNamespace(option=SimpleNamespace(), getvalue=lambda _: ["popen"])
    return LongestFirst(config, None)


def _start(scheduler: LongestFirst) -> Any:
    process: Any = Process("some")
    scheduler.add_node(process)
    scheduler.add_node_collection(process, FILES)
    scheduler.schedule()
    return process


def test_replacement_runs_the_rest_without_the_test_that_ended_the_process(
    scheduler: LongestFirst,
) -> None:
    dead = _start(scheduler)
    for index in range(3):
        scheduler.mark_test_complete(dead, index)
    assert scheduler.remove_node(dead) == "b.py::second"
    assert _start(scheduler).received == [4, 5]


def test_replacement_with_one_test_of_a_file_gets_the_next_file(scheduler: LongestFirst) -> None:
    dead = _start(scheduler)
    assert scheduler.remove_node(dead) == "a.py::first"
    replacement = _start(scheduler)
    assert replacement.received[:3] == [1, 2, 3]
    for index in range(1, len(FILES)):
        scheduler.mark_test_complete(replacement, index)
    assert replacement.received == [1, 2, 3, 4, 5]
    assert replacement.shutting_down


def test_end_of_a_process_without_tests_has_no_culprit(scheduler: LongestFirst) -> None:
    dead = _start(scheduler)
    for index in range(len(FILES)):
        scheduler.mark_test_complete(dead, index)
    assert scheduler.remove_node(dead) is None
