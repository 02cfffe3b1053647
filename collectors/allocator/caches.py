"""Find the tensors in which engines keep keys and values of earlier tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import torch

_CLASSES: Final[Mapping[str, str | None]] = {
    "sglang.srt.mem_cache.memory_pool.KVCache": None,
    "transformers.cache_utils.Cache": None,
    "transformers.cache_utils.CacheLayerMixin": None,
    "transformers.cache_utils.LinearAttentionCacheLayerMixin": None,
    "transformers.generation.continuous_batching.cache.PagedAttentionCache": None,
    "vllm.v1.worker.gpu.model_runner.GPUModelRunner": "kv_caches",
    "vllm.v1.worker.gpu_model_runner.GPUModelRunner": "kv_caches",
}
"""Classes that hold caches, with the attribute that does. None: each attribute may."""

_NAMES: Final = frozenset(path.rpartition(".")[2] for path in _CLASSES)

_CONTAINERS: Final = 2
"""Maximum number of containers around a tensor: a list of pairs."""


def is_cache_holder(kind: type) -> bool:
    """Check if objects of a type hold caches. Runs no code of the program."""
    return _find_class(kind) is not None


def iter_cache_tensors(holder: Any) -> Iterator[torch.Tensor]:
    """Iterate over the tensors of the caches of ``holder``."""
    path = _find_class(type(holder))
    if path is None:
        return
    attribute, attributes = _CLASSES[path], getattr(holder, "__dict__", {})
    values = attributes.values() if attribute is None else [attributes.get(attribute)]
    yield from _iter_tensors(values, _CONTAINERS)


def _find_class(kind: type) -> str | None:
    for base in type.mro(kind):
        # Without metaclasses of the program, which may run code at each access.
        name = type.__getattribute__(base, "__qualname__")
        if name in _NAMES:
            path = f"{type.__getattribute__(base, '__module__')}.{name}"
            if path in _CLASSES:
                return path
    return None


def _iter_tensors(values: Iterable[Any], depth: int) -> Iterator[torch.Tensor]:
    for value in tuple(values):
        # Not isinstance, which runs code of some objects.
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            yield value
        elif depth and issubclass(kind, dict):
            yield from _iter_tensors(value.values(), depth - 1)
        elif depth and issubclass(kind, list | tuple):
            yield from _iter_tensors(value, depth - 1)
