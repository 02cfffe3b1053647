"""Parse changes of a configuration, such as ``layers=16:24``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from graphviz_dash.analysis.ledger.fit import (
    ChangedFeature,
    FitChange,
    FitMismatch,
    find_mismatches,
)
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import Run

_PAIRS: Final = ("layers", "ranks")
_PAIR: Final = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)
_SIZES: Final = re.compile(r"\d{1,9}(?:,\d{1,9})*", re.ASCII)
_DEVICE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*GiB", re.ASCII)
_EXAMPLES: Final = "layers=16:24, ranks=1:4, 512=1024, sizes=64,8,1 or device=80GiB"


def parse_changes(texts: Iterable[str]) -> FitChange:
    """Parse changes of the recorded configuration.

    ``layers=OLD:NEW`` changes the number of layers, ``ranks=OLD:NEW`` that of tensor-parallel
    ranks, ``OLD=NEW`` a dimension of tensors, ``sizes=A,B,C`` the sizes to capture, and
    ``device=80GiB`` the memory to fit into.

    Raises:
        InputError: A change is none of these.
    """
    sizes: tuple[int, ...] = ()
    pairs: dict[str, tuple[int, int]] = {}
    dimensions: dict[int, int] = {}
    device: int | None = None
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        pair, amount = _PAIR.fullmatch(value), _DEVICE.fullmatch(value)
        if name in _PAIRS and pair is not None and int(pair[1]) and int(pair[2]):
            pairs[name] = int(pair[1]), int(pair[2])
        elif name == "sizes" and _SIZES.fullmatch(value):
            sizes = tuple(int(size) for size in value.split(","))
        elif name == "device" and amount is not None:
            device = round(float(amount[1]) * (1 << 30))
        elif _SIZES.fullmatch(name) and _SIZES.fullmatch(value) and "," not in name + value:
            dimensions[int(name)] = int(value)
        else:
            raise InputError(f"--fit {text}", "an unknown change", _EXAMPLES)
    return FitChange(
        sizes, pairs.get("layers"), tuple(dimensions.items()), device, pairs.get("ranks")
    )


_MAX_VALUES: Final = 12
_MISSING: Final = {
    ChangedFeature.LAYERS: "list of layers",
    ChangedFeature.RANKS: "list of layers, whose matrices and caches ranks share",
    ChangedFeature.SIZES: "known size of a graph",
    ChangedFeature.DIMENSION: "tensor with a known shape",
}


def select_matching_runs(runs: Iterable[Run], change: FitChange) -> list[str]:
    """Return the names of the runs with everything that ``change`` names.

    Raises:
        InputError: No run has it.
    """
    names, mismatches = [], []
    for run in runs:
        if run.ledger is None or not run.ledger.states:
            continue
        mismatch = next(find_mismatches(run, change), None)
        if mismatch is None:
            names.append(run.name)
        else:
            mismatches.append((run.name, mismatch))
    if mismatches and not names:
        # A run with other values explains more than one without any.
        raise _describe_mismatch(*max(mismatches, key=lambda pair: len(pair[1].candidates)))
    return names


def _describe_mismatch(run: str, mismatch: FitMismatch) -> InputError:
    place = f"--fit {mismatch.feature.value}"
    if not mismatch.candidates:
        return InputError(place, f"no {_MISSING[mismatch.feature]} in {run}", "a run with one")
    values = ", ".join(str(value) for value in mismatch.candidates[-_MAX_VALUES:])
    if mismatch.feature is ChangedFeature.LAYERS:
        return InputError(place, f"no list of {mismatch.value} layers in {run}", values)
    return InputError(place, f"no tensor with a dimension of {mismatch.value} in {run}", values)
