"""The parameters of a workload: a dataclass that its factory takes, filled from ``--set``.

A factory without parameters takes no argument. One with parameters takes a single argument, and its
annotation is a dataclass whose fields are int, float, bool or str and all have defaults::

    @dataclass(frozen=True)
    class Size:
        layers: int = 4

    def train(size: Size) -> Step: ...

A method ``work()`` of the dataclass may return a StepWork: what one step computes.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, get_type_hints, runtime_checkable

from msgspec import Struct

from graphviz_dash.errors import InputError
from graphviz_dash.model.run import StepWork

Value: TypeAlias = int | float | bool | str

_KINDS: Final = (int, float, bool, str)
_TRUTHS: Final = {"true": True, "1": True, "false": False, "0": False}


@runtime_checkable
class StatesWork(Protocol):
    """Parameters that know what a step with them computes."""

    def work(self) -> StepWork:
        """What one step computes."""


class WorkloadFacts(Struct, frozen=True):
    """What a pass found out about its workload, for the manifest."""

    parameters: dict[str, Value]
    work: StepWork | None


def arguments_of(factory: Any, name: str, settings: Sequence[str]) -> tuple[Any, ...]:
    """The arguments to call ``factory`` with: none, or its parameters with ``settings`` applied.

    ``name`` is how messages call the workload; ``settings`` are texts ``parameter=value``.

    Raises:
        InputError: a setting has no such form, names no parameter or has a value of another type;
            settings for a factory without parameters; or a factory that takes something else.
    """
    kind = _parameters_class(factory, name)
    if kind is None:
        if settings:
            raise InputError(
                f"--set {settings[0]}",
                f"{name} has no parameters",
                "no --set with this workload",
            )
        return ()
    types = _field_types(kind, name)
    given: dict[str, Value] = {}
    for setting in settings:
        field, separator, text = setting.partition("=")
        if not separator:
            raise InputError(f"--set {setting}", "no = in it", "name=value")
        if field not in types:
            raise InputError(
                f"--set {setting}",
                f"no parameter {field!r} of {name}",
                f"one of {', '.join(types)}",
            )
        given[field] = _parse(text, types[field], setting)
    return (kind(**given),)


def facts_of(arguments: tuple[Any, ...]) -> WorkloadFacts:
    """The values of all parameters, defaults included, and the work of a step if they tell it."""
    if not arguments:
        return WorkloadFacts({}, None)
    (parameters,) = arguments
    values: Mapping[str, Value] = dataclasses.asdict(parameters)
    return WorkloadFacts(
        dict(values), parameters.work() if isinstance(parameters, StatesWork) else None
    )


def _parameters_class(factory: Any, name: str) -> Any:
    """The dataclass that the factory takes; None for a factory without parameters."""
    needed = [
        parameter
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not needed:
        return None
    kind = get_type_hints(factory).get(needed[0].name)
    if len(needed) == 1 and isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind
    raise InputError(
        f"--workload {name}",
        f"the factory takes {', '.join(parameter.name for parameter in needed)}",
        "no argument, or one that is annotated with a dataclass: the workload's parameters",
    )


def _field_types(kind: type, name: str) -> dict[str, type]:
    """Name and type of each field that a setting can set."""
    hints = get_type_hints(kind)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    for field in dataclasses.fields(kind):
        has_default = (
            field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        )
        if hints[field.name] not in _KINDS or not has_default:
            raise InputError(
                f"--workload {name}",
                f"parameter {field.name!r} of type {hints[field.name]!r}"
                + ("" if has_default else " without a default"),
                "parameters of type int, float, bool or str with defaults",
            )
    return fields


def _parse(text: str, kind: type, setting: str) -> Value:
    if kind is str:
        return text
    if kind is bool:
        if text.lower() in _TRUTHS:
            return _TRUTHS[text.lower()]
        raise InputError(f"--set {setting}", repr(text), "true or false")
    try:
        number: int | float = int(text) if kind is int else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        expected = "a whole number" if kind is int else "a number"
        raise InputError(f"--set {setting}", repr(text), expected)
    return number
