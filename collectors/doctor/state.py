"""Find the Python variables that a step can change; a replay changes none of them."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sized
from contextlib import suppress
from typing import Any, Final

from collectors.doctor.events import Scalar

_DEPTH: Final = 3


def read_python_state(step: Callable[..., Any]) -> dict[str, Scalar]:
    """Read numbers, strings and lengths in a step's closures, globals and attributes."""
    return dict(_iter_callable_state(step, _DEPTH, set()))


def diff_state(
    before: dict[str, Scalar], after: dict[str, Scalar]
) -> tuple[tuple[str, Scalar, Scalar], ...]:
    """Return name, old and new value of each changed variable."""
    return tuple(
        (name, value, after[name])
        for name, value in before.items()
        if name in after and after[name] != value
    )


def _iter_callable_state(
    function: Callable[..., Any], depth: int, visited: set[int]
) -> Iterator[tuple[str, Scalar]]:
    if id(function) in visited or depth == 0:
        return
    visited.add(id(function))
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        for name, value in getattr(owner, "__dict__", {}).items():
            yield from _iter_value_state(f"{type(owner).__name__}.{name}", value, depth, visited)
    for name, value in iter_variables(function):
        yield from _iter_value_state(name, value, depth, visited)


def iter_variables(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Iterate over closure variables and globals that the code of a function or method names."""
    function = getattr(function, "__func__", function)
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, types.FunctionType):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # not yet assigned
            yield name, cell.cell_contents
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _iter_value_state(
    name: str, value: Any, depth: int, visited: set[int]
) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, bool | int | float | str):
        yield name, value
    elif isinstance(value, types.FunctionType | types.MethodType):
        yield from _iter_callable_state(value, depth - 1, visited)
    elif isinstance(value, list | dict | set) and isinstance(value, Sized):
        yield f"len({name})", len(value)
        if isinstance(value, dict) and len(value) < 50:
            for key, inner in value.items():
                if isinstance(inner, bool | int | float | str):
                    yield f"{name}[{key!r}]", inner
