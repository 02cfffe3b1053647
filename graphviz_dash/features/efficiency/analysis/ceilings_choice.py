"""Choose the limits that a run is compared with."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

import msgspec
from msgspec import Struct

from graphviz_dash.analysis.absence import explain_missing
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.ceilings import Ceilings
from graphviz_dash.model.run import Run

_PACKAGE: Final = "graphviz_dash.features.efficiency.reference"


class CeilingsOrigin(StrEnum):
    """Origin of limits."""

    RUN = "measured with this run"
    FILE = "read from a file"
    SAME_MODEL = "measured on another GPU of the same model"


class CeilingsChoice(Struct, frozen=True):
    """Limits and their origin."""

    ceilings: Ceilings
    origin: CeilingsOrigin


def choose_ceilings(
    run: Run, ceilings_override: Ceilings | None = None
) -> CeilingsChoice | Missing:
    """Choose the given limits, those of the run, or shipped ones of the same GPU model."""
    if ceilings_override is not None:
        return CeilingsChoice(ceilings_override, CeilingsOrigin.FILE)
    if run.ceilings is not None:
        return CeilingsChoice(run.ceilings, CeilingsOrigin.RUN)
    gpu = run.manifest.environment.gpu
    reference = None if gpu is None else find_shipped_ceilings(gpu.name)
    if reference is not None:
        return reference
    if any(absent.fact == Fact.CEILINGS for absent in run.manifest.absent):
        return explain_missing(run, Fact.CEILINGS)
    device = run.manifest.environment.gpu_name
    return Missing(Fact.CEILINGS, f"the run contains no measured limits of {device}")


def find_shipped_ceilings(name: str) -> CeilingsChoice | None:
    """Find the shipped limits of a GPU model by its name."""
    for entry in load_shipped_ceilings():
        if entry.gpu.name == name:
            return CeilingsChoice(entry, CeilingsOrigin.SAME_MODEL)
    return None


@cache
def load_shipped_ceilings() -> tuple[Ceilings, ...]:
    """Load the shipped limits, one per GPU model."""
    files = sorted(
        (entry for entry in resources.files(_PACKAGE).iterdir() if entry.name.endswith(".json")),
        key=lambda entry: entry.name,
    )
    return tuple(msgspec.json.decode(entry.read_bytes(), type=Ceilings) for entry in files)
