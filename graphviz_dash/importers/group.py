"""Which of the files that are imported belong to one run: the trace of a capture, that of its
replays, a debug DOT, a memory snapshot.

Files whose names differ only in words such as "capture" and "replay" belong together, if at most
one of them is a trace of replays; whoever knows better says so. Traces in a folder that is called
``capture_traces`` are captures for the replays beside that folder, of the same rank.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.ingest.formats.registry import ForeignContent
from graphviz_dash.model.run import FileRole

_SUFFIX: Final = re.compile(
    r"(\.pt\.trace)?\.(json|dot|gv|sqlite|db|pickle|pkl|gz|zst|trace|txt)$", re.I
)
_ROLE_WORD: Final = re.compile(
    r"(^|[-_. ])(capture|captured|replay|replays|trace|traces|graph[-_]?data|graph|graphs|dot"
    r"|memory|mem|snapshot|profile|nsys|report)(?=$|[-_. ])",
    re.I,
)
CAPTURES: Final = "capture_traces"
"""The folder in which vLLM, SGLang and xDiT put the traces of their captures."""

_RANK: Final = re.compile(r"rank[-_]?(\d+)|TP-?(\d+)", re.I)
_LOG: Final = re.compile(r"dedicated_log_torch_trace_")
"""How torch names the logs of TORCH_TRACE."""

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 80


class SourcePart(Struct, frozen=True):
    """One file of a run, or one process of it."""

    source: Path
    """The file that was given."""
    content: ForeignContent
    """What it holds."""
    role: FileRole | None = None
    """What its trace shows, captures or replays; None without a trace."""
    captures: bool = False
    """Whether its trace shows captures, whatever else it does."""


class SourceGroup(Struct, frozen=True):
    """The parts of one run and its name."""

    name: str
    """The name of the run."""
    parts: tuple[SourcePart, ...]
    """Its files, or processes of them."""
    other_captures: tuple[str, ...] = ()
    """Names of files with captures of which its replays are none."""

    @property
    def captures(self) -> tuple[SourcePart, ...]:
        """The parts with traces of captures."""
        return tuple(part for part in self.parts if part.role is FileRole.CAPTURE_TRACE)

    def trace(self, role: FileRole) -> SourcePart | None:
        """The part with the trace in that role, or the first of several."""
        return next((part for part in self.parts if part.role is role), None)


def stem(path: Path) -> str:
    """The name of a file without its endings."""
    name = path.name
    while (shorter := _SUFFIX.sub("", name)) != name and shorter:
        name = shorter
    return name


def common_name(path: Path) -> str:
    """The name of a file without endings and without the words that say which part it is; empty if
    it has no other."""
    name = stem(path)
    while (shorter := _ROLE_WORD.sub("", name)) != name:
        name = shorter
    return name.strip("-_. ")


def run_name(text: str) -> str:
    """``text`` as the name of a folder; of a long one the end, in which ranks are told, as a hash
    of all of it."""
    name = _PLAIN.sub("-", text).strip("-.") or "run"
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}-{digest(text)}"


def digest(text: str) -> str:
    """Eight letters that tell ``text`` from others."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def grouped(parts: Sequence[SourcePart], *, join: bool = False) -> list[SourceGroup]:
    """The runs that ``parts`` make. With ``join`` all of them are one run, as long as no two are
    the same thing."""
    if join:
        return [SourceGroup(run_name(_name(parts)), _with_roles(parts))]
    beside = [part for part in parts if part.captures and part.source.parent.name == CAPTURES]
    logs = [part for part in parts if _LOG.match(part.source.name) and part.content.compilation]
    groups = _by_name([part for part in parts if part not in beside and part not in logs])
    groups = _with_logs(groups, logs)
    joined = [_with_captures(group, beside) for group in groups]
    used = {part.source for group in joined for part in group.parts}
    return [*joined, *_by_name([part for part in beside if part.source not in used])]


def _with_logs(groups: Sequence[SourceGroup], logs: Sequence[SourcePart]) -> list[SourceGroup]:
    """``groups``, with each log under the name that torch gave it in the run of the trace in its
    folder, where they are the only two of their rank; the others are runs of their own."""
    fitting = [
        [index for index, group in enumerate(groups) if _is_log_of(log, group)] for log in logs
    ]
    asked = Counter(index for indices in fitting for index in indices)
    joined = list(groups)
    left = []
    for log, indices in zip(logs, fitting, strict=True):
        if len(indices) == 1 and asked[indices[0]] == 1:
            group = joined[indices[0]]
            joined[indices[0]] = replace(group, parts=(*group.parts, log))
        else:
            left.append(log)
    return [*joined, *_by_name(left)]


def _is_log_of(log: SourcePart, group: SourceGroup) -> bool:
    """Whether a log may be of the run whose trace lies in its folder."""
    trace = group.trace(FileRole.REPLAY_TRACE)
    return (
        trace is not None
        and trace.source.parent == log.source.parent
        and not _of_other_ranks(log.source, trace.source)
        and not has_duplicates((*group.parts, log))
    )


def _with_captures(group: SourceGroup, captures: Sequence[SourcePart]) -> SourceGroup:
    """``group`` with the captures in the folder beside its replays."""
    replays = group.trace(FileRole.REPLAY_TRACE)
    if replays is None or replays.captures or group.trace(FileRole.CAPTURE_TRACE) is not None:
        return group
    own = [
        part
        for part in captures
        if part.source.parent.parent == replays.source.parent
        and not _of_other_ranks(part.source, replays.source)
    ]
    return replace(group, parts=_with_roles((*group.parts, *own)))


def _of_other_ranks(first: Path, second: Path) -> bool:
    """Whether the names of both tell a rank, and not the same."""
    ranks = [match.group() for path in (first, second) if (match := _RANK.search(path.name))]
    return len(ranks) == 2 and len({re.sub(r"\D", "", rank) for rank in ranks}) == 2


def _with_roles(parts: Sequence[SourcePart]) -> tuple[SourcePart, ...]:
    """``parts``; beside a trace of replays alone one that also captures is that of the capture."""
    replays = [part for part in parts if part.role is FileRole.REPLAY_TRACE]
    if len(replays) < 2 or all(part.captures for part in replays):
        return tuple(parts)
    return tuple(
        replace(part, role=FileRole.CAPTURE_TRACE) if part.captures else part for part in parts
    )


def _by_name(parts: Sequence[SourcePart]) -> list[SourceGroup]:
    by_name: dict[tuple[str, str, str], list[SourcePart]] = {}
    for part in parts:
        key = (str(part.source.parent), common_name(part.source), part.content.label)
        by_name.setdefault(key, []).append(part)
    groups = []
    for (_, _, label), named in by_name.items():
        members = _with_roles(named)
        if has_duplicates(members):
            groups += [
                SourceGroup(run_name(stem(part.source) + part.content.label), (part,))
                for part in members
            ]
        else:
            groups.append(SourceGroup(run_name(_name(members) + label), members))
    return groups


def _name(parts: Sequence[SourcePart]) -> str:
    """What the names of some files have in common; where that is nothing, the name of the only one
    or of the folder around them."""
    first = parts[0].source
    if name := common_name(first):
        return name
    if len(parts) == 1:
        return stem(first)
    above = (common_name(folder) for folder in first.resolve().parents)
    return next((name for name in above if name), stem(first))


def has_duplicates(parts: Sequence[SourcePart]) -> bool:
    """Whether two of the parts cannot be of one run: two traces of replays, two of captures without
    replays that tell which is theirs, two snapshots, two logs of torch.compile."""
    roles = [part.role for part in parts]
    replays, captures = roles.count(FileRole.REPLAY_TRACE), roles.count(FileRole.CAPTURE_TRACE)
    snapshots = sum(part.content.memory is not None for part in parts)
    logs = sum(part.content.compilation is not None for part in parts)
    return replays > 1 or (captures > 1 and not replays) or max(snapshots, logs) > 1
