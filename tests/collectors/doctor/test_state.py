from __future__ import annotations

from collections.abc import Callable

from collectors.doctor.state import diff_state, read_python_state

TOTAL = 0


def counting() -> Callable[[], None]:
    count, losses, options = 0, [1.0], {"rate": 0.1, "deep": {}}

    def step() -> None:
        nonlocal count
        global TOTAL  # noqa: PLW0603
        count += 1
        TOTAL += 2
        losses.append(0.5)
        options["rate"] = 0.05

    return step


def test_closures_globals_lengths_and_entries_are_seen() -> None:
    step = counting()
    before = read_python_state(step)
    step()
    found = {name: (old, new) for name, old, new in diff_state(before, read_python_state(step))}
    assert found["count"] == (0, 1)
    assert found["TOTAL"][1] - found["TOTAL"][0] == 2
    assert found["len(losses)"] == (1, 2)
    assert found["options['rate']"] == (0.1, 0.05)


def test_functions_that_a_step_calls_are_looked_into() -> None:
    inner = counting()

    def step() -> None:
        inner()

    before = read_python_state(step)
    step()
    assert ("count", 0, 1) in diff_state(before, read_python_state(step))


class Trainer:
    def __init__(self) -> None:
        self.step_number = 5
        self.name = "x"

    def step(self) -> None:
        self.step_number += 1


def test_attributes_of_a_methods_object_are_seen() -> None:
    trainer = Trainer()
    before = read_python_state(trainer.step)
    trainer.step()
    assert diff_state(before, read_python_state(trainer.step)) == (("Trainer.step_number", 5, 6),)


def test_a_function_that_calls_itself_is_looked_at_once() -> None:
    depth = 1

    def step() -> None:
        if depth > 5:
            step()

    assert read_python_state(step) == {"depth": 1}
