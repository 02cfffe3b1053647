"""Find the owners of live allocations among Python's tracked objects."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from types import CellType, FunctionType
from typing import Any, Final, NamedTuple

import torch

from collectors.allocator.caches import is_cache_holder, iter_cache_tensors
from graphviz_dash.model.memory import Owner

_INTERPRETER_FROZEN: Final = gc.get_freeze_count()
"""Objects frozen by the interpreter itself; Python 3.12 has some from its start."""


class TrackedObjects(NamedTuple):
    """Torch objects that the collector tracks."""

    tensors: list[torch.Tensor]
    optimizers: list[torch.optim.Optimizer]
    modules: list[torch.nn.Module]
    caches: list[Any]
    """Objects of engines that hold caches."""


def list_tracked_objects(*, collect: bool = True) -> TrackedObjects:
    """List the torch objects. ``collect``: run the garbage collector first to free unreachable
    ones."""
    if collect:
        gc.collect()
    objects = TrackedObjects([], [], [], [])
    lists: dict[int, list[Any] | None] = {}
    for candidate in _list_objects():
        # Use type(): reading the class of some objects runs their code. Use its id: some classes
        # have no hash.
        kind = type(candidate)
        if id(kind) not in lists:
            lists[id(kind)] = find_list(kind, objects)
        if (matching := lists[id(kind)]) is not None:
            matching.append(candidate)
    return objects


def _list_objects() -> list[Any]:
    """List tracked objects, frozen ones included: engines freeze their model before captures."""
    if gc.get_freeze_count() <= _INTERPRETER_FROZEN:
        # freeze() would add all objects of the program, whose collections it shortens.
        return _drop_builtins(gc.get_objects())
    gc.unfreeze()
    try:
        return _drop_builtins(gc.get_objects())
    finally:
        gc.freeze()


def _drop_builtins(candidates: list[Any]) -> list[Any]:
    """Drop the most frequent types: a program has millions of such objects."""
    return [
        candidate
        for candidate in candidates
        if (kind := type(candidate)) is not dict
        and kind is not tuple
        and kind is not list
        and kind is not FunctionType
        and kind is not CellType
    ]


def find_list(kind: type, objects: TrackedObjects) -> list[Any] | None:
    """Return the list of ``objects`` for objects of a type. None if there is none."""
    if issubclass(kind, torch.Tensor):
        return objects.tensors
    if issubclass(kind, torch.optim.Optimizer):
        return objects.optimizers
    if issubclass(kind, torch.nn.Module):
        return objects.modules
    return objects.caches if is_cache_holder(kind) else None


def find_owners(objects: TrackedObjects) -> dict[int, Owner]:
    """Return the owner at each address, the first match in the order of Owner.

    Excludes allocations without a Python tensor, such as library workspaces.
    """
    return {address: owner for address, (owner, _) in find_owned_tensors(objects).items()}


def find_owned_tensors(objects: TrackedObjects) -> dict[int, tuple[Owner, torch.Tensor]]:
    """Return owner and largest tensor of the allocation at each address."""
    entries: dict[int, tuple[Owner, torch.Tensor]] = {}
    for owner, tensor in _iter_owned_tensors(objects):
        address = tensor.untyped_storage().data_ptr()
        entry = entries.setdefault(address, (owner, tensor))
        if entry[0] is owner and tensor.numel() > entry[1].numel():
            entries[address] = owner, tensor
    return entries


def _iter_owned_tensors(objects: TrackedObjects) -> Iterator[tuple[Owner, torch.Tensor]]:
    on_device = [tensor for tensor in objects.tensors if _is_on_device(tensor)]
    parameters = [tensor for tensor in on_device if isinstance(tensor, torch.nn.Parameter)]
    gradients = [parameter.grad for parameter in parameters]
    for owner, candidates in (
        (Owner.WEIGHTS, parameters),
        (Owner.GRADIENTS, gradients),
        (Owner.OPTIMIZER, _iter_optimizer_state(objects.optimizers)),
        (Owner.BUFFERS, _iter_buffers(objects.modules)),
        (Owner.CACHES, chain.from_iterable(map(iter_cache_tensors, objects.caches))),
        (Owner.TENSORS, on_device),
    ):
        for candidate in candidates:
            if isinstance(candidate, torch.Tensor) and _is_on_device(candidate):
                yield owner, candidate


def _iter_optimizer_state(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[Any]:
    for optimizer in optimizers:
        for state in optimizer.state.values():
            yield from state.values()


def _iter_buffers(modules: Iterable[torch.nn.Module]) -> Iterator[Any]:
    for module in modules:
        # Subclasses have attributes with the names of methods: megatron-core's DDP has a list
        # ``buffers``.
        yield from vars(module).get("_buffers", {}).values()


def _is_on_device(tensor: torch.Tensor) -> bool:
    """Check for storage on the GPU. The compiler's fake tensors have none."""
    # Importing this module would add a second to the start-up of a program without the compiler.
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    return (
        not (fakes is not None and isinstance(tensor, fakes.FakeTensor))
        and tensor.layout is torch.strided
        and tensor.is_cuda
        and not torch._is_functional_tensor(tensor)
    )
