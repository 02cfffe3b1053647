from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from collectors.passes.parameters import WorkloadFacts, build_arguments, collect_facts
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import StepWork


@dataclass(frozen=True)
class Size:
    layers: int = 4
    rate: float = 0.5
    fused: bool = True
    name: str = "gpt"

    def work(self) -> StepWork:
        return StepWork(6 * self.layers, None, "bf16", "six a layer")


@dataclass
class NoDefault:
    layers: int


@dataclass
class BadType:
    layers: list[int] | None = None


def sized(size: Size) -> Any:
    return size


def plain() -> Any:
    return None


def optional(width: int = 3) -> Any:
    return width


def untyped(size) -> Any:  # type: ignore[no-untyped-def]
    return size


def two(size: Size, other: int) -> Any:
    return size, other


def no_default(size: NoDefault) -> Any:
    return size


def bad_type(size: BadType) -> Any:
    return size


def test_settings_are_read_by_the_type_of_their_field() -> None:
    settings = ["layers=12", "rate=1e-3", "fused=False", "name=a=b"]
    assert build_arguments(sized, "w", settings) == (Size(12, 1e-3, False, "a=b"),)


def test_defaults_are_recorded_too() -> None:
    facts = collect_facts(build_arguments(sized, "w", ["layers=2"]))
    assert facts.parameters == {"layers": 2, "rate": 0.5, "fused": True, "name": "gpt"}
    assert facts.work == StepWork(12, None, "bf16", "six a layer")


@pytest.mark.parametrize("factory", [plain, optional])
def test_a_factory_without_parameters_is_called_without(factory: Any) -> None:
    assert build_arguments(factory, "w", []) == ()
    assert collect_facts(()) == WorkloadFacts({}, None)


@pytest.mark.parametrize(
    ("factory", "setting", "expected"),
    [
        (sized, "depth=3", "one of layers, rate, fused, name"),
        (sized, "layers", "name=value"),
        (sized, "layers=3.5", "a whole number"),
        (sized, "rate=fast", "a number"),
        (sized, "rate=inf", "a number"),
        (sized, "fused=perhaps", "true or false"),
        (plain, "layers=3", "no --set for this workload"),
    ],
)
def test_a_wrong_setting_says_what_is_expected(factory: Any, setting: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        build_arguments(factory, "w", [setting])
    assert caught.value.where == f"--set {setting}"
    assert caught.value.expected == expected


@pytest.mark.parametrize("factory", [untyped, two, no_default, bad_type])
def test_a_factory_that_takes_something_else_is_refused(factory: Any) -> None:
    with pytest.raises(InputError, match="--workload w"):
        build_arguments(factory, "w", [])
