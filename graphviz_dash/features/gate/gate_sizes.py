"""The replays of a recorded program's graphs held against a baseline's, key by key: one size that
became slower is told even where the mean over all did not."""

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
"""Of one key: the median of the sampled replays of its graphs."""

_FEWEST: Final = 8
"""Sampled replays from which a median is held: of seven the true one lies outside of all with more
than 1%, so that no resample knows of it."""

_MOST_NAMED: Final = 8

_Keys: TypeAlias = Mapping[tuple[str, tuple[int, ...]], BaselineKey]


def record_keys(run: Run) -> tuple[BaselineKey, ...]:
    """The sampled replays of each known key of the families of ``run``; of several families of one
    name those of the one with the most steps. None where no program's loop was recorded."""
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
    """The keys of a run held against the baseline's."""

    figures: tuple[GatedFigure, ...]
    """Of the keys that both have, by family and key."""
    notes: tuple[str, ...]
    """What was not held, and why."""


def hold_keys(run: BaselineRun, befores: Sequence[BaselineRun], limit: float) -> HeldKeys:
    """The replays of each key of ``run`` held against those of the recordings ``befores``, of
    several against the slowest. A key that only one side has is no offence: another ladder was
    captured."""
    own = _by_key(run.keys)
    earlier = [_renamed(_by_key(before.keys), own) for before in befores]
    names = sorted({name for keys in (own, *earlier) for name in keys})
    figures: list[GatedFigure] = []
    gone: list[str] = []
    new: list[str] = []
    few: list[str] = []
    for name in names:
        had = [keys[name] for keys in earlier if name in keys]
        if name not in own:
            gone.append(_text(had[0]))
            continue
        if not had:
            new.append(_text(own[name]))
            continue
        timed = [key for key in had if len(key.replay_ns) >= _FEWEST]
        if len(own[name].replay_ns) < _FEWEST or not timed:
            few.append(_text(own[name]))
            continue
        series = [_series(key) for key in timed]
        slowest = max(series, key=lambda each: each.median)
        now = _series(own[name])
        held = hold_times(run.name, METRIC, slowest, now, limit, _text(own[name]))
        if not isinstance(held, Missing):
            figures.append(held)
    return HeldKeys(tuple(figures), tuple(_notes(run.name, gone, new, few)))


def _series(key: BaselineKey) -> TimeSeries:
    return TimeSeries((key.replay_ns,), neighbours_alike=False)


def _by_key(keys: Sequence[BaselineKey]) -> _Keys:
    return {(key.family, key.key): key for key in keys}


def _renamed(before: _Keys, now: _Keys) -> _Keys:
    """``before`` with the name of the family that it has now, where either has but one: a family
    without a name of its own is called after the line that captures it."""
    (own, other) = ({family for family, _ in keys} for keys in (now, before))
    if len(own) != 1 or len(other) != 1:
        return before
    (name,) = own
    return {(name, numbers): key for (_, numbers), key in before.items()}


def _text(key: BaselineKey) -> str:
    return f"{key.family}, {numbers_text(key.axes, key.key)}"


def _notes(run: str, gone: Sequence[str], new: Sequence[str], few: Sequence[str]) -> Iterator[str]:
    for keys, what in (
        (gone, "captured in the baseline only"),
        (new, "not captured in the baseline"),
        (few, f"fewer than {_FEWEST} replays timed on one side"),
    ):
        if keys:
            named = "; ".join(keys[:_MOST_NAMED])
            more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
            yield f"{run}: {counted(len(keys), 'key')} {what}: {named}{more}"
