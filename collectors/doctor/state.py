"""The Python variables that a step can change: a replay changes none of them."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sized
from typing import Any, Final

from collectors.doctor.events import Scalar

_DEPTH: Final = 3


def python_state(step: Callable[..., Any]) -> dict[str, Scalar]:
    """Numbers, texts and lengths that are reachable from a step: variables of its closure, globals
    that it names, attributes of the object that it is a method of."""
    return dict(_of_callable(step, _DEPTH, set()))


def changes(
    before: dict[str, Scalar], after: dict[str, Scalar]
) -> tuple[tuple[str, Scalar, Scalar], ...]:
    """Name, old and new value of each variable that is not what it was."""
    return tuple(
        (name, value, after[name])
        for name, value in before.items()
        if name in after and after[name] != value
    )


def _of_callable(
    function: Callable[..., Any], depth: int, seen: set[int]
) -> Iterator[tuple[str, Scalar]]:
    if id(function) in seen or depth == 0:
        return
    seen.add(id(function))
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        for name, value in getattr(owner, "__dict__", {}).items():
            yield from _of_value(f"{type(owner).__name__}.{name}", value, depth, seen)
    plain = getattr(function, "__func__", function)
    plain = getattr(plain, "__wrapped__", plain)
    if not isinstance(plain, types.FunctionType):
        return
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        yield from _of_value(name, value, depth, seen)
    for name in plain.__code__.co_names:
        if name in plain.__globals__:
            yield from _of_value(name, plain.__globals__[name], depth, seen)


def _of_value(name: str, value: Any, depth: int, seen: set[int]) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, bool | int | float | str):
        yield name, value
    elif isinstance(value, types.FunctionType | types.MethodType):
        yield from _of_callable(value, depth - 1, seen)
    elif isinstance(value, list | dict | set) and isinstance(value, Sized):
        yield f"len({name})", len(value)
        if isinstance(value, dict) and len(value) < 50:
            for key, inner in value.items():
                if isinstance(inner, bool | int | float | str):
                    yield f"{name}[{key!r}]", inner
