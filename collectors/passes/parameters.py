"""Fill a workload's parameters, a dataclass taken by its factory, from ``--set``.

A factory takes either no argument or a single one, annotated with a dataclass. All fields are of
type int, float, bool or str and have defaults::

    @dataclass(frozen=True)
    class Size:
        layers: int = 4

    def train(size: Size) -> Step: ...

The dataclass may define ``work()`` to return a StepWork: the work of one step.
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
class HasWork(Protocol):
    """Parameters that define the work of a step."""

    def work(self) -> StepWork:
        """Return the work of one step."""


class WorkloadFacts(Struct, frozen=True):
    """Facts about the workload for the manifest."""

    parameters: dict[str, Value]
    work: StepWork | None


def build_arguments(factory: Any, name: str, settings: Sequence[str]) -> tuple[Any, ...]:
    """Return the arguments of ``factory``: none, or its parameters with ``settings`` applied.

    ``name`` is the workload's name in messages; ``settings`` have the form ``parameter=value``.

    Raises:
        InputError: A setting or the factory's signature is invalid.
    """
    kind = _find_parameters_class(factory, name)
    if kind is None:
        if settings:
            raise InputError(
                f"--set {settings[0]}",
                f"{name} has no parameters",
                "no --set for this workload",
            )
        return ()
    types = _get_field_types(kind, name)
    values: dict[str, Value] = {}
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
        values[field] = _parse_value(text, types[field], setting)
    return (kind(**values),)


def collect_facts(arguments: tuple[Any, ...]) -> WorkloadFacts:
    """Return all parameter values, including defaults, and the work of a step if defined."""
    if not arguments:
        return WorkloadFacts({}, None)
    (parameters,) = arguments
    values: Mapping[str, Value] = dataclasses.asdict(parameters)
    return WorkloadFacts(
        dict(values), parameters.work() if isinstance(parameters, HasWork) else None
    )


def _find_parameters_class(factory: Any, name: str) -> Any:
    required = [
        parameter
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not required:
        return None
    kind = get_type_hints(factory).get(required[0].name)
    if len(required) == 1 and isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind
    raise InputError(
        f"--workload {name}",
        f"the factory takes {', '.join(parameter.name for parameter in required)}",
        "no argument, or one annotated with a dataclass of the workload's parameters",
    )


def _get_field_types(kind: type, name: str) -> dict[str, type]:
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


def _parse_value(text: str, kind: type, setting: str) -> Value:
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
