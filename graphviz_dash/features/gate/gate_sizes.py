"""Gate for the replays of a recorded program's graphs, per key.

Detects a regression of one size that the mean over all sizes hides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from graphviz_dash.analysis.loop.family_report import FamilyReport, build_loop_report
from graphviz_dash.analysis.loop.keys import format_numbers
from graphviz_dash.features.gate.gated import MetricChange, TimeSeries, compare_times
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.baseline import BaselineKey, BaselineRun
from graphviz_dash.model.run import Run
from graphviz_dash.units import pluralize

REPLAY_METRIC: Final = "loop_replay"
"""Median of the sampled replays of a key's graphs."""

_MIN_SAMPLES: Final = 8
"""Resampling seven replays misses the true median in more than 1% of cases."""

_MAX_LISTED_KEYS: Final = 8

_KeysById: TypeAlias = Mapping[tuple[str, tuple[int, ...]], BaselineKey]


def record_keys(run: Run) -> tuple[BaselineKey, ...]:
    """Collect the sampled replays per known key; empty without a loop.

    If families share a name, the one with the most steps is used.
    """
    report = build_loop_report(run)
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


class KeyComparison(Struct, frozen=True):
    """Keys of a run compared with the baseline's."""

    changes: tuple[MetricChange, ...]
    """By family and key, if both sides have them."""
    notes: tuple[str, ...]
    """Skipped keys, with the reason."""


def compare_keys(run: BaselineRun, baselines: Sequence[BaselineRun], limit: float) -> KeyComparison:
    """Compare the replays of each key with the slowest recording.

    A key on one side only is not a failure.
    """
    current = _index_by_key(run.keys)
    earlier = [_rename_family(_index_by_key(before.keys), current) for before in baselines]
    names = sorted({name for keys in (current, *earlier) for name in keys})
    figures: list[MetricChange] = []
    missing_keys: list[str] = []
    new_keys: list[str] = []
    undersampled_keys: list[str] = []
    for name in names:
        earlier_keys = [keys[name] for keys in earlier if name in keys]
        if name not in current:
            missing_keys.append(_format_key(earlier_keys[0]))
            continue
        if not earlier_keys:
            new_keys.append(_format_key(current[name]))
            continue
        timed = [key for key in earlier_keys if len(key.replay_ns) >= _MIN_SAMPLES]
        if len(current[name].replay_ns) < _MIN_SAMPLES or not timed:
            undersampled_keys.append(_format_key(current[name]))
            continue
        series = [_build_series(key) for key in timed]
        slowest = max(series, key=lambda candidate: candidate.median)
        now = _build_series(current[name])
        change = compare_times(
            run.name, REPLAY_METRIC, slowest, now, limit, _format_key(current[name])
        )
        if not isinstance(change, Missing):
            figures.append(change)
    return KeyComparison(
        tuple(figures), tuple(_format_notes(run.name, missing_keys, new_keys, undersampled_keys))
    )


def _build_series(key: BaselineKey) -> TimeSeries:
    return TimeSeries((key.replay_ns,), is_correlated=False)


def _index_by_key(keys: Sequence[BaselineKey]) -> _KeysById:
    return {(key.family, key.key): key for key in keys}


def _rename_family(before: _KeysById, now: _KeysById) -> _KeysById:
    """Use the current family name if both sides have a single family.

    Unlabelled families are named after the capturing line, which may move.
    """
    (current_families, earlier_families) = (
        {family for family, _ in keys} for keys in (now, before)
    )
    if len(current_families) != 1 or len(earlier_families) != 1:
        return before
    (name,) = current_families
    return {(name, numbers): key for (_, numbers), key in before.items()}


def _format_key(key: BaselineKey) -> str:
    return f"{key.family}, {format_numbers(key.axes, key.key)}"


def _format_notes(
    run: str, missing: Sequence[str], new: Sequence[str], undersampled: Sequence[str]
) -> Iterator[str]:
    for keys, reason in (
        (missing, "only in the baseline"),
        (new, "missing from the baseline"),
        (undersampled, f"with fewer than {_MIN_SAMPLES} timed replays on one side"),
    ):
        if keys:
            listed = "; ".join(keys[:_MAX_LISTED_KEYS])
            more = (
                f" and {len(keys) - _MAX_LISTED_KEYS} more" if len(keys) > _MAX_LISTED_KEYS else ""
            )
            yield f"{run}: {pluralize(len(keys), 'key')} {reason}: {listed}{more}"
