"""A workload that asks for more memory than there is, in the pass that the environment names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import torch

from collectors.process.requests import PassRequest
from collectors.workloads import Step

_TOO_MUCH = 1 << 50


def linear() -> Step:
    """A layer forward and backward; in graph mode's named pass also memory that is not there."""
    layer = torch.nn.Linear(64, 64, device="cuda")
    given = torch.randn(32, 64, device="cuda")
    request = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=PassRequest)
    here = request.kind.value == os.environ["HUNGRY_PASS"] and request.mode.value == "graph"

    def step() -> None:
        layer.zero_grad(set_to_none=False)
        layer(given).sum().backward()
        if here:
            torch.empty(_TOO_MUCH, device="cuda")

    return step
