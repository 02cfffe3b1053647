"""``sync-in-step``: a training step that reads its loss on the CPU, which no capture allows."""

from __future__ import annotations

from collectors.workloads import Step, mlp


def train() -> Step:
    """The step of ``mlp-train``, then ``loss.item()``: it waits for the GPU."""
    inner = mlp.train()
    losses: list[float] = []

    def step() -> float:
        loss = inner()
        losses.append(loss.item())  # type: ignore[attr-defined]  # a tensor; Step says object
        return losses[-1]

    return step
