"""Identify collectives of torch.distributed, their writes and their completion.

Collectives stay in program order on one stream: ranks with different orders deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves

from collectors.parallel.storages import find_written_arguments, iter_tensors

COLLECTIVES: Final = frozenset({"c10d", "_c10d_functional"})
"""Namespaces of collectives on tensor arguments."""

HIDDEN_COMMUNICATION: Final = frozenset({"symm_mem"})
"""Namespaces of operators that access other ranks' memory through hidden addresses."""

_LOCAL_OPERATORS: Final = frozenset({"wait_tensor", "_wrap_tensor_autograd"})
"""Collective operators without communication."""


def is_collective(function: Any) -> bool:
    """Check if an operator communicates with other ranks."""
    name = function._schema.name.partition("::")[2]
    return function.namespace in COLLECTIVES and name not in _LOCAL_OPERATORS


def find_collective_writes(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """Return the arguments that a collective writes.

    Schemas of ``c10d`` do not mark them: every argument not named as an input counts, except in a
    send.
    """
    if function.namespace != "c10d":
        return find_written_arguments(function, args, kwargs)
    if function._schema.name == "c10d::send":
        return []
    values: list[torch.Tensor] = []
    for name, value in _iter_arguments(function, args, kwargs):
        if not name.startswith("input"):
            values += iter_tensors(value)
    return values


def _iter_arguments(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    for position, argument in enumerate(function._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        yield argument.name, value


def wait_for_collective(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> None:
    """Make the current stream wait for a collective on the library's stream.

    The program's later wait then returns immediately. torch already waits for synchronous calls,
    whose handle may be null (NCCL, torch 2.8 and later) and crash.
    """
    if function.namespace == "c10d":
        if dict(_iter_arguments(function, args, kwargs)).get("async_op") is False:
            return
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.ScriptObject):
                leaf.wait()
    else:
        for tensor in iter_tensors(result):
            torch.ops._c10d_functional.wait_tensor(tensor)
