"""Compare a replay with an eager step from the same state."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import nn
from torch.utils._pytree import keystr, tree_flatten_with_path

from collectors.doctor.state import iter_variables
from collectors.doctor.watch import ExternalTensor
from collectors.workloads import Step
from graphviz_dash.model.doctor import OutputCheck

_MEMORY_SHARE: Final = 0.5
"""Maximum share of free GPU memory for copies of the state."""

_STATE_COPIES: Final = 4

_MAX_LISTED: Final = 40


@dataclass(frozen=True)
class ReplayComparison:
    """Compared tensors, differing ones first, or the reason for no comparison."""

    outputs: tuple[OutputCheck, ...]
    reason: str | None


@dataclass(frozen=True)
class _Tensor:
    name: str
    kind: Literal["result", "state"]
    value: torch.Tensor


def compare_replay(
    step: Step,
    graph: Any,
    result: Any,
    outside: Mapping[int, ExternalTensor],
    stream: torch.cuda.Stream,
    *,
    with_noise: bool,
) -> ReplayComparison:
    """Run an eager step and a replay from the same memory and random state.

    Args:
        result: Return value during capture; replays write there.
        outside: External memory of the step.
        with_noise: Measure noise by a second eager step. Invalid if the step changes Python state.
    """
    state = _name_state(step, outside)
    size = sum(tensor.value.numel() * tensor.value.element_size() for tensor in state)
    free, _ = torch.cuda.mem_get_info()
    if size * _STATE_COPIES > free * _MEMORY_SHARE:
        return ReplayComparison(
            (),
            (
                f"{_STATE_COPIES} copies of {size:,} bytes of state do not fit into {free:,} free "
                "bytes"
            ),
        )
    saved = [tensor.value.clone() for tensor in state]
    random = torch.cuda.get_rng_state()

    def restore() -> None:
        torch.cuda.synchronize()
        for tensor, value in zip(state, saved, strict=True):
            tensor.value.copy_(value)
        torch.cuda.set_rng_state(random)
        torch.cuda.synchronize()

    def run_eager() -> list[_Tensor]:
        with torch.cuda.stream(stream):
            returned = step()
        torch.cuda.synchronize()
        return [_clone(tensor) for tensor in (*_flatten_results(returned), *state)]

    with torch.no_grad():
        restore()
        graph.replay()
        torch.cuda.synchronize()
        replayed = [_clone(tensor) for tensor in (*_flatten_results(result), *state)]
        restore()
    eager = run_eager()
    second_replay: list[_Tensor] | None = None
    if with_noise:
        with torch.no_grad():
            restore()
        second_replay = run_eager()
    with torch.no_grad():
        restore()
        return ReplayComparison(_build_checks(eager, replayed, second_replay), None)


def _clone(tensor: _Tensor) -> _Tensor:
    return _Tensor(tensor.name, tensor.kind, tensor.value.detach().clone())


def _build_checks(
    eager: list[_Tensor], replayed: list[_Tensor], second_replay: list[_Tensor] | None
) -> tuple[OutputCheck, ...]:
    others = {(tensor.kind, tensor.name): tensor.value for tensor in replayed}
    repeats = {(tensor.kind, tensor.name): tensor.value for tensor in second_replay or []}
    checks = []
    for tensor in eager:
        other = others.get((tensor.kind, tensor.name))
        if other is None or other.shape != tensor.value.shape:
            continue
        differing, largest = measure_difference(tensor.value, other)
        repeat = repeats.get((tensor.kind, tensor.name))
        same_shape = repeat is not None and repeat.shape == tensor.value.shape
        checks.append(
            OutputCheck(
                name=tensor.name,
                kind=tensor.kind,
                dtype=str(tensor.value.dtype).removeprefix("torch."),
                shape=tuple(tensor.value.shape),
                elements=tensor.value.numel(),
                differing_elements=differing,
                max_difference=largest,
                eager_difference=measure_difference(tensor.value, repeat)[1]
                if same_shape
                else None,
            )
        )
    checks.sort(key=lambda check: (check.kind != "result", -check.differing_elements))
    return tuple(checks[:_MAX_LISTED])


def measure_difference(value: torch.Tensor, reference: Any) -> tuple[int, float | None]:
    """Return the number of unequal elements (NaN equals NaN) and the largest finite absolute
    difference."""
    if value.numel() == 0:
        return 0, 0.0
    both_nan = torch.isnan(value) & torch.isnan(reference) if value.is_floating_point() else None
    unequal = value != reference
    if both_nan is not None:
        unequal &= ~both_nan
    count = int(unequal.sum().item())
    if count == 0:
        return 0, 0.0
    if value.is_complex() or value.dtype == torch.bool:
        return count, None
    gap = (value.double() - reference.double()).abs()
    gap = gap[torch.isfinite(gap)]
    return count, float(gap.max().item()) if gap.numel() else None


def _flatten_results(returned: object) -> list[_Tensor]:
    leaves, _ = tree_flatten_with_path(returned)
    return [
        _Tensor(f"result{keystr(path)}", "result", leaf)
        for path, leaf in leaves
        if isinstance(leaf, torch.Tensor) and leaf.is_cuda and leaf.layout == torch.strided
    ]


def _name_state(step: Step, outside: Mapping[int, ExternalTensor]) -> list[_Tensor]:
    names: dict[int, str] = {}
    for name, tensor in _iter_named_tensors(step):
        if tensor.is_cuda and tensor.layout == torch.strided:
            names.setdefault(int(tensor.untyped_storage()._cdata), name)
    named: set[str] = set()
    tensors = []
    for storage, use in outside.items():
        name = names.get(storage, use.name)
        while name in named:
            name += "'"
        named.add(name)
        tensors.append(_Tensor(name, "state", use.tensor))
    return tensors


def iter_step_values(step: Callable[..., Any], depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Yield name and value of everything that a step's code refers to."""
    owner = getattr(step, "__self__", None)
    values = getattr(owner, "__dict__", {}) | dict(iter_variables(step))
    for name, value in values.items():
        yield name, value
        if isinstance(value, types.FunctionType | types.MethodType) and depth > 1:
            yield from iter_step_values(value, depth - 1)


def _iter_named_tensors(step: Callable[..., Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in iter_step_values(step):
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, nn.Module):
            tensors = (*value.named_parameters(), *value.named_buffers())
            yield from ((f"{name}.{path}", tensor) for path, tensor in tensors)
        elif isinstance(value, torch.optim.Optimizer):
            yield from _iter_optimizer_state(name, value)


def _iter_optimizer_state(
    name: str, optimizer: torch.optim.Optimizer
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield state by parameter index: ``optimizer.state[0].exp_avg``."""
    parameters = [part for group in optimizer.param_groups for part in group["params"]]
    for index, parameter in enumerate(parameters):
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor):
                yield f"{name}.state[{index}].{key}", value
