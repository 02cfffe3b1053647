"""The order in which files of tests begin names files that are there, each once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.order import FIRST, LongestFirst


def test_every_file_that_begins_early_is_there() -> None:
    files = [file for row in FIRST for file in row]
    assert [file for file in files if not (Path(__file__).parent / file).is_file()] == []
    assert len(set(files)) == len(files)


class Process:
    """A test process as pytest-xdist's scheduler sees it."""

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
