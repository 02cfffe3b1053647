"""Find the owners of live allocations among the objects that Python's collector tracks."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from graphviz_dash.model.memory import Owner


def find_owners() -> dict[int, Owner]:
    """Return the owner of the allocation at each address: the first match in the order of Owner.

    Excludes allocations without a Python tensor, such as library workspaces.
    """
    gc.collect()
    owner_by_address: dict[int, Owner] = {}
    for owner, tensor in _iter_owned_tensors():
        owner_by_address.setdefault(tensor.untyped_storage().data_ptr(), owner)
    return owner_by_address


def _iter_owned_tensors() -> Iterator[tuple[Owner, torch.Tensor]]:
    # Use type(): reading the class of some objects runs their code.
    objects = gc.get_objects()
    tensors = [candidate for candidate in objects if issubclass(type(candidate), torch.Tensor)]
    on_device = [tensor for tensor in tensors if _is_on_device(tensor)]
    parameters = [tensor for tensor in on_device if isinstance(tensor, torch.nn.Parameter)]
    gradients = [parameter.grad for parameter in parameters]
    for owner, candidates in (
        (Owner.WEIGHTS, parameters),
        (Owner.GRADIENTS, gradients),
        (Owner.OPTIMIZER, _iter_optimizer_state(objects)),
        (Owner.BUFFERS, _iter_buffers(objects)),
        (Owner.TENSORS, on_device),
    ):
        for candidate in candidates:
            if isinstance(candidate, torch.Tensor) and _is_on_device(candidate):
                yield owner, candidate


def _iter_optimizer_state(objects: Iterable[Any]) -> Iterator[Any]:
    for candidate in objects:
        if issubclass(type(candidate), torch.optim.Optimizer):
            for state in candidate.state.values():
                yield from state.values()


def _iter_buffers(objects: Iterable[Any]) -> Iterator[torch.Tensor]:
    for candidate in objects:
        if issubclass(type(candidate), torch.nn.Module):
            yield from candidate.buffers(recurse=False)


def _is_on_device(tensor: torch.Tensor) -> bool:
    """Check for storage on the GPU. The compiler's fake tensors have none."""
    return (
        not isinstance(tensor, FakeTensor)
        and tensor.layout is torch.strided
        and tensor.is_cuda
        and not torch._is_functional_tensor(tensor)
    )
