"""Find tensors through the modules that a program builds, without a search among all objects."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from itertools import islice
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, cast
from weakref import ReferenceType, ref

import torch
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from collectors.allocator.caches import is_cache_holder
from collectors.allocator.owners import TrackedObjects, find_list

MAX_OBJECTS: Final = 50_000
"""Maximum number of objects that a search reads."""
_MODULE_DEPTH: Final = 4
"""Maximum number of objects from a module to its tensors: module, attributes, two containers."""
_HOLDER_DEPTH: Final = 7
"""The same from another object: worker, runner and pool, each with its attributes, and a list."""

_MAX_CALLS: Final = 16
"""Maximum number of calls of modules whose inputs are remembered."""
_MAX_ITEMS: Final = 1_000
"""Maximum number of remembered items of an input."""

_LEAVES: Final = frozenset(
    id(kind)
    for kind in (
        *(BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType),
        *(str, int, float, bool, bytes, type(None)),
    )
)
"""Types whose objects hold no tensors or lead to all objects of the program, by their ids."""


class TensorHolders:
    """Remembers the modules that a program builds from :meth:`start` to :meth:`stop`, and other
    objects that hold tensors. Keeps none of them alive.
    """

    def __init__(self) -> None:
        self._holders: dict[int, ReferenceType[Any]] = {}
        self._handles: list[Any] = []
        self._active = False
        self._calls = 0

    def start(self) -> None:
        """Remember modules that get a parameter or a submodule from now on."""
        self._active = True
        for register in (
            register_module_parameter_registration_hook,
            register_module_module_registration_hook,
        ):
            self._handles.append(register(self._handle_registration))

    def pause(self) -> None:
        """Stop remembering, in any thread. torch iterates over its hooks while they run, so that
        only the program's own thread may remove them."""
        self._active = False

    def stop(self) -> None:
        """Stop remembering and restore torch."""
        self.pause()
        while self._handles:
            self._handles.pop().remove()

    def add(self, holder: object) -> None:
        """Remember an object that may hold tensors."""
        if not self._active or issubclass(type(holder), type):
            return
        reference = self._holders.get(id(holder))
        if reference is None or reference() is not holder:
            try:
                self._holders[id(holder)] = ref(holder)
            except TypeError:
                # Some objects have no weak references.
                return

    def add_inputs(self, inputs: Iterable[object]) -> None:
        """Remember the inputs of a module, such as caches, and the items of lists among them."""
        if self._active and self._calls < _MAX_CALLS:
            self._calls += 1
            for item in inputs:
                if type(item) in (list, tuple):
                    for inner in islice(cast("Iterable[object]", item), _MAX_ITEMS):
                        self.add(inner)
                else:
                    self.add(item)

    def _handle_registration(self, module: Any, _name: str, _value: object) -> None:
        # The compiler folds the constant and removes the rest, so that compilation does not change.
        if torch.compiler.is_compiling():
            return
        self.add(module)

    def find_objects(self) -> TrackedObjects:
        """Find the tensors, optimizers and modules that the remembered objects hold."""
        objects = TrackedObjects([], [], [], [])
        others: list[object] = []
        for reference in tuple(self._holders.values()):
            holder = reference()
            if holder is not None:
                matching = find_list(type(holder), objects)
                (others if matching is None else matching).append(holder)
        search = _Search(objects)
        search.run(tuple(objects.modules), _MODULE_DEPTH, _is_container)
        search.run([*others, *objects.caches], _HOLDER_DEPTH, _is_object)
        return objects


class _Role(Enum):
    """Role of a type in a search."""

    LEAF = auto()
    TENSOR = auto()
    MODULE = auto()
    CONTAINER = auto()
    CACHE = auto()
    """A container that holds the caches of an engine."""


class _Search:
    """Breadth-first search by references, which runs no code of the program."""

    def __init__(self, objects: TrackedObjects) -> None:
        self._objects = objects
        self.visits: set[int] = set()

    def run(
        self, holders: Sequence[object], depth: int, is_container: Callable[[type], bool]
    ) -> None:
        """Search from ``holders`` through at most ``depth`` objects of types that are entered."""
        visits, objects = self.visits, self._objects
        roles: dict[int, _Role] = {}
        queue = deque((holder, depth) for holder in holders)
        visits.update(map(id, holders))
        while queue and len(visits) < MAX_OBJECTS:
            holder, left = queue.popleft()
            for item in gc.get_referents(holder):
                # Use the id of the type: some classes have no hash.
                key = id(type(item))
                role = roles.get(key)
                if role is None:
                    role = roles[key] = _find_role(type(item), is_container)
                if role is _Role.LEAF or id(item) in visits:
                    continue
                if role in (_Role.CONTAINER, _Role.CACHE) and left < 2:
                    continue
                visits.add(id(item))
                if role is _Role.TENSOR:
                    objects.tensors.append(item)
                elif role is _Role.MODULE:
                    objects.modules.append(item)
                    queue.append((item, _MODULE_DEPTH))
                else:
                    if role is _Role.CACHE:
                        objects.caches.append(item)
                    queue.append((item, left - 1))


def _find_role(kind: type, is_container: Callable[[type], bool]) -> _Role:
    if issubclass(kind, torch.Tensor):
        return _Role.TENSOR
    if issubclass(kind, torch.nn.Module):
        return _Role.MODULE
    if not is_container(kind):
        return _Role.LEAF
    return _Role.CACHE if is_cache_holder(kind) else _Role.CONTAINER


def _is_container(kind: type) -> bool:
    return issubclass(kind, dict | list | tuple)


def _is_object(kind: type) -> bool:
    return id(kind) not in _LEAVES and not issubclass(kind, type)
