"""``sync-in-step``: a training step that reads its loss on the CPU, which prevents capture."""

from __future__ import annotations

from collectors.workloads import Step, mlp


def train() -> Step:
    """Build the step of ``mlp-train`` followed by ``loss.item()``, which waits for the GPU."""
    inner = mlp.train()
    losses: list[float] = []

    def step() -> float:
        loss = inner()
        losses.append(loss.item())  # type: ignore[attr-defined]  # a tensor; Step says object
        return losses[-1]

    return step
