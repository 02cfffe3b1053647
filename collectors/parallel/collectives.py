"""Collectives of torch.distributed: which operators they are, what they write, when they end.

They are kept in the order of the program, all of them whatever their group, on one stream: ranks
that issue the collectives of a group in different orders wait for each other for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves

from collectors.parallel.storages import tensors, written

COLLECTIVES: Final = frozenset({"c10d", "_c10d_functional"})
"""Namespaces of collectives on tensors that they are given."""

UNSEEN: Final = frozenset({"symm_mem"})
"""Namespaces of operators that reach other ranks' memory by addresses that no argument shows."""

_SILENT: Final = frozenset({"wait_tensor", "_wrap_tensor_autograd"})
"""Operators among collectives that talk to no one."""


def is_collective(function: Any) -> bool:
    """Whether an operator talks to other ranks."""
    name = function._schema.name.partition("::")[2]
    return function.namespace in COLLECTIVES and name not in _SILENT


def collective_writes(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """The arguments that a collective writes.

    Schemas of ``c10d`` do not say it: there whatever is not called an input is written, but for
    what is sent.
    """
    if function.namespace != "c10d":
        return written(function, args, kwargs)
    if function._schema.name == "c10d::send":
        return []
    values: list[torch.Tensor] = []
    for name, value in _given(function, args, kwargs):
        if not name.startswith("input"):
            values += tensors(value)
    return values


def _given(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The arguments of a call by their names, None for what was left out."""
    for position, argument in enumerate(function._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        yield argument.name, value


def join(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Lets the current stream wait for a collective that the library put onto a stream of its own,
    as the program does later with an asynchronous one: that finds nothing left to wait for.

    A call that is not asynchronous is waited for by torch before it returns to the program; its
    handle may be none (NCCL, from torch 2.8 on), and asking that crashes.
    """
    if function.namespace == "c10d":
        if dict(_given(function, args, kwargs)).get("async_op") is False:
            return
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.ScriptObject):
                leaf.wait()
    else:
        for tensor in tensors(result):
            torch.ops._c10d_functional.wait_tensor(tensor)
