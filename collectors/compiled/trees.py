"""Read torch's CUDA graph trees.

The trees are private; attributes are those of torch 2.6 to 2.13. A missing attribute loses one
fact.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from collectors.collection.paths import shorten_path
from graphviz_dash.bundle.compile_log import RECORD_ERRORS, check_value
from graphviz_dash.bundle.compile_stacks import extract_stack_lines
from graphviz_dash.model.compilation import (
    CopiedInput,
    FunctionInput,
    GraphSkip,
    TreeFunction,
    TreeNode,
    UserLine,
)

TREES: Final = "torch._inductor.cudagraph_trees"

TREE_ATTRIBUTES: Final = {
    "torch._inductor.cudagraph_trees.TreeManagerContainer": ("tree_manager",),
    "torch._inductor.cudagraph_trees.CUDAGraphTreeManager": (
        "get_roots", "id_to_compile_id", "id_to_mode", "ids_to_funcs", "roots",
        "warmed_up_functions", "warned_functions", "warned_mutation",
    ),
    "torch._inductor.cudagraph_trees.CUDAGraphNode": (
        "children", "cudagraph_managed_idxs", "graph", "id", "non_static_input_idx",
        "output_storage_alias", "reconstructed_inputs", "wrapped_function",
    ),
    "torch._inductor.cudagraph_utils.WrappedFunction": (
        "id", "mutated_input_idxs", "placeholders", "static_input_idxs",
    ),
    "torch._inductor.cudagraph_utils.PlaceholderInfo": (
        "mutating_use_stack_trace", "name", "stack_trace", "users",
    ),
}  # fmt: skip
"""Classes of the trees and the attributes read here; ``make torch-names`` checks them."""

MUTATED: Final = "mutated inputs"
"""Reason for not recording a function that writes to its inputs."""

_MAX_NODES: Final = 20_000


@dataclass(frozen=True)
class Trees:
    """Contents of this process's trees."""

    functions: tuple[TreeFunction, ...]
    nodes: tuple[TreeNode, ...]
    """Their graphs, parents before children."""
    slow: tuple[str | None, ...]
    """Compilations (None if unknown) whose outputs still wait for their backward."""
    skips: tuple[GraphSkip, ...]


def read_trees(graph_id: Callable[[object], str | None]) -> Trees | None:
    """Read the trees of all devices, or return None if there are none.

    ``graph_id`` maps a ``torch.cuda.CUDAGraph`` to its bundle id.

    Raises:
        AttributeError: This torch version stores the trees differently.
    """
    functions: list[TreeFunction] = []
    nodes: list[TreeNode] = []
    slow: list[str | None] = []
    skips: list[GraphSkip] = []
    for manager in _iter_managers():
        # Ids restart on each device; offset those of later devices.
        first_function, first_node = len(functions), len(nodes)
        read = list(_iter_nodes(manager, graph_id))
        recorded = Counter(node.function for node in read)
        made = [_read_function(manager, key, recorded) for key in manager.ids_to_funcs]
        functions.extend(replace(function, id=function.id + first_function) for function in made)
        nodes.extend(_shift_nodes(read, first_function, first_node))
        slow.extend(
            _get_compile_id(manager, key) for key in getattr(manager, "warned_functions", ())
        )
        skips.extend(_iter_mutating_skips(manager))
    if not functions:
        return None
    return Trees(tuple(functions), tuple(nodes), tuple(slow), tuple(skips))


def _iter_managers() -> Iterator[Any]:
    trees = sys.modules.get(TREES)
    if trees is None:
        return
    containers = trees.get_obj(trees.local, "tree_manager_containers")
    for device in sorted(containers):
        manager = containers[device].tree_manager
        if manager is not None and manager.roots is not None:
            yield manager


def _get_compile_id(manager: Any, key: Any) -> str | None:
    frame = getattr(manager, "id_to_compile_id", {}).get(key)
    return None if frame is None else str(frame)


def _iter_mutating_skips(manager: Any) -> Iterator[GraphSkip]:
    """Yield a skip per function that writes to non-static inputs, which the log does not name."""
    for key in getattr(manager, "warned_mutation", ()):
        function = manager.ids_to_funcs[key]
        static = set(function.static_input_idxs)
        mutated = [index for index in function.mutated_input_idxs if index not in static]
        holders = [function.placeholders[index] for index in mutated]
        lines = [line for line in map(find_user_line, holders) if line is not None]
        yield GraphSkip(
            frame=_get_compile_id(manager, key),
            reason=f"{MUTATED} ({len(mutated)} instances)",
            lines=tuple(dict.fromkeys(lines)),
        )


def _read_function(manager: Any, key: Any, recorded: Counter[int]) -> TreeFunction:
    function = manager.ids_to_funcs[key]
    static = set(function.static_input_idxs)
    mutated = set(function.mutated_input_idxs)
    mode = manager.id_to_mode.get(key)
    return TreeFunction(
        id=key.id,
        frame=_get_compile_id(manager, key),
        mode=str(getattr(mode, "name", mode)).lower(),
        inputs=tuple(
            FunctionInput(
                str(holder.name), index in static, index in mutated, find_user_line(holder)
            )
            for index, holder in enumerate(function.placeholders)
        ),
        warmups=int(key in manager.warmed_up_functions),
        recordings=recorded[key.id],
    )


def _iter_nodes(manager: Any, graph_id: Callable[[object], str | None]) -> Iterator[TreeNode]:
    waiting: list[tuple[Any, int | None]] = [(root, None) for root in manager.get_roots()]
    node_count = 0
    while waiting and node_count < _MAX_NODES:
        node, parent = waiting.pop(0)
        node_count += 1
        yield _read_node(node, parent, graph_id)
        waiting.extend(
            (child, node.id.id) for children in node.children.values() for child in children
        )


def _read_node(node: Any, parent: int | None, graph_id: Callable[[object], str | None]) -> TreeNode:
    placeholders = node.wrapped_function.placeholders
    inputs = getattr(node, "reconstructed_inputs", ())
    copied = []
    for index in node.non_static_input_idx:
        holder = placeholders[index] if index < len(placeholders) else None
        size = getattr(inputs[index] if index < len(inputs) else None, "nbytes", None)
        if size is None:
            continue
        copied.append(
            CopiedInput(
                name=str(getattr(holder, "name", f"input {index}")),
                bytes=int(size),
                line=None if holder is None else find_user_line(holder),
            )
        )
    outputs = [alias for alias in node.output_storage_alias if alias is not None]
    return TreeNode(
        id=node.id.id,
        function=node.wrapped_function.id.id,
        parent=parent,
        graph=graph_id(node.graph),
        copied=tuple(copied),
        managed=len(node.cudagraph_managed_idxs),
        outputs=len(outputs),
        aliased=sum(type(alias).__name__.startswith("Aliases") for alias in outputs),
    )


def find_user_line(holder: Any) -> UserLine | None:
    """Find the first program line that uses or changes an input; None if unknown."""
    texts = (holder.stack_trace, getattr(holder, "mutating_use_stack_trace", None))
    for text in (*texts, *(user.stack_trace for user in holder.users)):
        if not text:
            continue
        with suppress(*RECORD_ERRORS):  # a path that no bundle can hold
            lines = extract_stack_lines(str(text), shorten_path)
            if lines:
                return check_value(lines[0], UserLine)
    return None


def _shift_nodes(nodes: list[TreeNode], functions: int, by: int) -> Iterator[TreeNode]:
    return (
        replace(
            node,
            id=node.id + by,
            function=node.function + functions,
            parent=None if node.parent is None else node.parent + by,
        )
        for node in nodes
    )
