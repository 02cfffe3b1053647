from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.bindings")

import torch

from collectors.parallel import check as check_module
from collectors.parallel import observer as observer_module
from collectors.parallel.check import Checker, CheckOutcome
from collectors.parallel.hidden import add_hidden_accesses
from collectors.parallel.observer import OperatorObserver
from collectors.parallel.state import ExternalState

COUNT = torch.zeros(4)
NOTES = torch.zeros(4)
TAKEN: list[int] = []
"""An entry for each call that left a note."""


@torch.library.custom_op("checks::average", mutates_args=())
def average(x: torch.Tensor) -> torch.Tensor:
    """A moving average that no argument shows, and notes of the library."""
    COUNT.mul_(0.5).add_(x)
    if TAKEN:
        TAKEN.append(0)
        NOTES.fill_(len(TAKEN))
    return COUNT.clone()


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = iter(range(1, 1 << 20))
    monkeypatch.setattr(observer_module, "count_nodes", lambda: next(launched))
    monkeypatch.setattr(observer_module, "_count_large_blocks", lambda: 0)
    monkeypatch.setattr(check_module, "_LOADED_REPLAYS", 0)
    for name, value in {
        "current_stream": 0,
        "current_device": 0,
        "synchronize": None,
        "mem_get_info": (1 << 30, 1 << 30),
        "Stream": None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    COUNT.fill_(3.0)
    TAKEN.clear()


@dataclass
class Step:
    """A step and a replacement of its capture."""

    run: Callable[[], object]
    observed: Any

    def check(self, replay: Callable[[], object]) -> CheckOutcome:
        graph: Any = SimpleNamespace(graph=SimpleNamespace(replay=replay))
        return Checker(self.observed).check_replays(graph, {}, [])


def observed_step(run: Callable[[], object], *kept: torch.Tensor) -> Step:
    """Observe ``run``, whose operators may write the hidden tensors ``kept``."""
    observer = OperatorObserver()
    observer.start()
    observer.finish = lambda: None  # type: ignore[method-assign]
    with observer:
        run()
    (custom,) = [at for at, each in enumerate(observer.operators) if each.opaque]
    extents = {
        (each.data_ptr(), each.data_ptr() + each.untyped_storage().nbytes()): [custom]
        for each in kept
    }
    operators, storages, unknown = add_hidden_accesses(
        observer.operators, observer.storages, observer.outside, extents
    )
    memory = {(each.data_ptr()): each.untyped_storage() for each in kept}
    outside = observer.outside | {number: memory[begin] for number, (begin, _) in unknown.items()}
    return Step(
        run,
        SimpleNamespace(
            step=run,
            operators=operators,
            storages=storages,
            state=ExternalState(operators, storages, outside, observer.mixed),
            hidden=frozenset(unknown),
        ),
    )


def averaging() -> tuple[Callable[[], object], torch.Tensor]:
    x, out = torch.ones(4), torch.zeros(4)

    def run() -> object:
        return out.copy_(torch.ops.checks.average(x))

    return run, out


def test_the_state_of_an_operator_is_restored_and_compared() -> None:
    run, _ = averaging()
    step = observed_step(run, COUNT)
    before = COUNT.clone()
    outcome = step.check(run)
    assert (outcome.differs_at, outcome.noisy_at) == (None, None)
    assert outcome.check.bitwise_replays == outcome.check.replays
    assert outcome.check.tensors == 2
    assert torch.equal(COUNT, before)


def test_a_replay_that_leaves_something_else_there_differs() -> None:
    run, _ = averaging()
    step = observed_step(run, COUNT)

    def wrong() -> None:
        run()
        COUNT.add_(1)

    outcome = step.check(wrong)
    assert outcome.differs_at is not None
    assert step.observed.operators[outcome.differs_at].name == "checks.average.default"


def test_memory_that_a_step_leaves_as_it_is_is_not_compared() -> None:
    run, _ = averaging()
    step = observed_step(run, COUNT, NOTES)
    outcome = step.check(lambda: (run(), NOTES.add_(1)))
    assert outcome.differs_at is None
    assert outcome.check.tensors == 2


def test_notes_in_which_two_eager_steps_differ_tell_nothing() -> None:
    run, _ = averaging()

    step = observed_step(run, COUNT, NOTES)
    TAKEN.append(0)
    outcome = step.check(run)
    assert (outcome.differs_at, outcome.noisy_at) == (None, None)
    assert outcome.check.bitwise_replays == outcome.check.replays
