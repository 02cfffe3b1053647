"""Gate for the replays of a recorded program's graphs, per key.

Detects a regression of one size that the mean over all sizes hides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import FamilyReport, loop_report
from graphviz_dash.analysis.loop.keys import numbers_text
from graphviz_dash.features.gate.gated import GatedFigure, TimeSeries, hold_times
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.baseline import BaselineKey, BaselineRun
from graphviz_dash.units import counted

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

METRIC: Final = "loop_replay"
"""Gated per key: median of the sampled replays of its graphs."""

_FEWEST: Final = 8
"""Minimum number of replays; resampling seven misses the true median in more than 1% of cases."""

_MOST_NAMED: Final = 8

_Keys: TypeAlias = Mapping[tuple[str, tuple[int, ...]], BaselineKey]


def record_keys(run: Run) -> tuple[BaselineKey, ...]:
    """Collect the sampled replays per known key; empty if no loop was recorded.

    If families share a name, the one with the most steps is used.
    """
    report = loop_report(run)
    if isinstance(report, Missing):
        return ()
    families: dict[str, FamilyReport] = {}
    for family in report.families:
        families.setdefault(family.family.name, family)
    return tuple(
        BaselineKey(
            family=name,
            axes=family.family.axes,
            key=member.member.key,
            replay_ns=tuple(map(int, member.gpu_ns.tolist())),
        )
        for name, family in families.items()
        for member in family.members
        if member.member.key is not None
    )


class HeldKeys(Struct, frozen=True):
    """Keys of a run compared with the baseline's."""

    figures: tuple[GatedFigure, ...]
    """Changes of keys that both sides have, by family and key."""
    notes: tuple[str, ...]
    """Skipped keys, with the reason."""


def hold_keys(run: BaselineRun, befores: Sequence[BaselineRun], limit: float) -> HeldKeys:
    """Compare the replays of each key with the slowest recording of ``befores``.

    A key on one side only is not a failure.
    """
    current = _by_key(run.keys)
    earlier = [_renamed(_by_key(before.keys), current) for before in befores]
    names = sorted({name for keys in (current, *earlier) for name in keys})
    figures: list[GatedFigure] = []
    missing_keys: list[str] = []
    new_keys: list[str] = []
    undersampled_keys: list[str] = []
    for name in names:
        earlier_keys = [keys[name] for keys in earlier if name in keys]
        if name not in current:
            missing_keys.append(_text(earlier_keys[0]))
            continue
        if not earlier_keys:
            new_keys.append(_text(current[name]))
            continue
        timed = [key for key in earlier_keys if len(key.replay_ns) >= _FEWEST]
        if len(current[name].replay_ns) < _FEWEST or not timed:
            undersampled_keys.append(_text(current[name]))
            continue
        series = [_series(key) for key in timed]
        slowest = max(series, key=lambda candidate: candidate.median)
        now = _series(current[name])
        change = hold_times(run.name, METRIC, slowest, now, limit, _text(current[name]))
        if not isinstance(change, Missing):
            figures.append(change)
    return HeldKeys(
        tuple(figures), tuple(_notes(run.name, missing_keys, new_keys, undersampled_keys))
    )


def _series(key: BaselineKey) -> TimeSeries:
    return TimeSeries((key.replay_ns,), neighbours_alike=False)


def _by_key(keys: Sequence[BaselineKey]) -> _Keys:
    return {(key.family, key.key): key for key in keys}


def _renamed(before: _Keys, now: _Keys) -> _Keys:
    """Return ``before`` with the current family name if both sides have a single family.

    Unlabelled families are named after the capturing line, which may move.
    """
    (current_families, earlier_families) = (
        {family for family, _ in keys} for keys in (now, before)
    )
    if len(current_families) != 1 or len(earlier_families) != 1:
        return before
    (name,) = current_families
    return {(name, numbers): key for (_, numbers), key in before.items()}


def _text(key: BaselineKey) -> str:
    return f"{key.family}, {numbers_text(key.axes, key.key)}"


def _notes(run: str, gone: Sequence[str], new: Sequence[str], few: Sequence[str]) -> Iterator[str]:
    for keys, reason in (
        (gone, "only in the baseline"),
        (new, "missing from the baseline"),
        (few, f"with fewer than {_FEWEST} timed replays on one side"),
    ):
        if keys:
            listed = "; ".join(keys[:_MOST_NAMED])
            more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
            yield f"{run}: {counted(len(keys), 'key')} {reason}: {listed}{more}"
