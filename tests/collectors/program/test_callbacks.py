from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

import collectors
from collectors.program import session
from graphviz_dash.errors import MissingRequirementError


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls to the recorder, which needs a GPU."""
    seen: list[str] = []

    @contextmanager
    def record(output: str, name: str, skip: int, steps: int) -> Iterator[None]:
        seen.append(f"begin {output}/{name}")
        try:
            yield
        except ValueError as error:
            seen.append(f"error {error}")
            raise
        finally:
            seen.append("end")

    monkeypatch.setattr(session, "record", record)
    monkeypatch.setattr(session, "step", lambda: seen.append("step"))
    return seen


@pytest.fixture
def bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning and transformers with nothing but the classes that callbacks derive from."""
    for module, name in (
        ("lightning", ""),
        ("lightning.pytorch", "Callback"),
        ("transformers", "TrainerCallback"),
    ):
        fake = ModuleType(module)
        if name:
            setattr(fake, name, type(name, (), {}))
        monkeypatch.setitem(sys.modules, module, fake)
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)


@pytest.mark.usefixtures("bases")
class TestLightning:
    def callback(self) -> Any:
        callback = collectors.lightning_callback("runs/x", "fit")
        assert type(callback).__mro__[1].__name__ == "Callback"
        return callback

    def test_a_training_is_recorded(self, events: list[str]) -> None:
        callback = self.callback()
        callback.on_train_start(None, None)
        callback.on_train_batch_end(None, None, None, None, 0)
        callback.on_train_batch_end(None, None, None, None, 1)
        callback.on_train_end(None, None)
        assert events == ["begin runs/x/fit", "step", "step", "end"]

    def test_a_failed_training_is_recorded_too(self, events: list[str]) -> None:
        callback = self.callback()
        callback.on_train_start(None, None)
        callback.on_exception(None, None, ValueError("diverged"))
        callback.on_train_end(None, None)
        assert events == ["begin runs/x/fit", "error diverged", "end"]


@pytest.mark.usefixtures("bases")
def test_a_trainer_of_transformers_is_recorded(events: list[str]) -> None:
    callback = collectors.trainer_callback("runs/x")
    assert type(callback).__mro__[1].__name__ == "TrainerCallback"
    for event in ("on_train_begin", "on_step_end", "on_step_end", "on_train_end"):
        getattr(callback, event)(None, None, None, model=None)
    assert events == ["begin runs/x/recorded", "step", "step", "end"]


@pytest.mark.parametrize("make", [collectors.lightning_callback, collectors.trainer_callback])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    imported = builtins.__import__

    def refuse(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.partition(".")[0] in ("lightning", "pytorch_lightning", "transformers"):
            raise ImportError(name)
        return imported(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingRequirementError, match="needs"):
        make("runs/x")
