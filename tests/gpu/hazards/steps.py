from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import torch
from torch.utils._pytree import tree_leaves

from collectors.workloads import Step

Hazard: TypeAlias = Callable[[], Step]

HAZARDS: Final[dict[str, Hazard]] = {}


def hazard(factory: Hazard) -> Hazard:
    HAZARDS[factory.__name__.replace("_", " ")] = factory
    return factory


def data(*shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (64, 64)))


def busy(x: torch.Tensor, times: int = 3) -> torch.Tensor:
    """Work that takes a while and depends on ``x``."""
    for _ in range(times):
        x = torch.tanh(x @ x * 0.1)
    return x


def hazard_results(result: object) -> list[torch.Tensor]:
    return [leaf.detach().clone() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
