"""Whose a live allocation of this process is, by the objects that Python's collector knows."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from graphviz_dash.model.memory import Owner


def owners() -> dict[int, Owner]:
    """The owner of the allocation at each address: the first that fits, in the order of Owner.

    What no tensor of Python holds (library workspaces, what C++ alone keeps) is not in it.
    """
    gc.collect()
    owner_by_address: dict[int, Owner] = {}
    for owner, tensor in _owned():
        owner_by_address.setdefault(tensor.untyped_storage().data_ptr(), owner)
    return owner_by_address


def _owned() -> Iterator[tuple[Owner, torch.Tensor]]:
    # By type(): asking some objects for their class runs code of theirs.
    objects = gc.get_objects()
    tensors = [thing for thing in objects if issubclass(type(thing), torch.Tensor)]
    real = [tensor for tensor in tensors if _on_device(tensor)]
    parameters = [tensor for tensor in real if isinstance(tensor, torch.nn.Parameter)]
    gradients = [parameter.grad for parameter in parameters]
    for owner, things in (
        (Owner.WEIGHTS, parameters),
        (Owner.GRADIENTS, gradients),
        (Owner.OPTIMIZER, _optimizer_state(objects)),
        (Owner.BUFFERS, _buffers(objects)),
        (Owner.TENSORS, real),
    ):
        for thing in things:
            if isinstance(thing, torch.Tensor) and _on_device(thing):
                yield owner, thing


def _optimizer_state(objects: Iterable[Any]) -> Iterator[Any]:
    for thing in objects:
        if issubclass(type(thing), torch.optim.Optimizer):
            for state in thing.state.values():
                yield from state.values()


def _buffers(objects: Iterable[Any]) -> Iterator[torch.Tensor]:
    for thing in objects:
        if issubclass(type(thing), torch.nn.Module):
            yield from thing.buffers(recurse=False)


def _on_device(tensor: torch.Tensor) -> bool:
    """Whether it has storage on the GPU: the compiler's fake tensors have none."""
    return (
        not isinstance(tensor, FakeTensor)
        and tensor.layout is torch.strided
        and tensor.is_cuda
        and not torch._is_functional_tensor(tensor)
    )
