"""Grouping of imported files by run.

Files whose names differ only in words such as "capture" and "replay" form a group with at most one
replay trace; ``--join`` overrides this. Traces in a folder ``capture_traces`` are captures for
replays of the same rank in its parent folder.
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
CAPTURES_FOLDER: Final = "capture_traces"
"""Folder of capture traces in vLLM, SGLang and xDiT."""

_RANK: Final = re.compile(r"rank[-_]?(\d+)|TP-?(\d+)", re.I)
_LOG: Final = re.compile(r"dedicated_log_torch_trace_")

_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_LENGTH: Final = 80


class SourcePart(Struct, frozen=True):
    """One file of a run, or one process in a file."""

    source: Path
    content: ForeignContent
    role: FileRole | None = None
    """Role of its trace: captures or replays. None without a trace."""
    captures: bool = False


class SourceGroup(Struct, frozen=True):
    """Parts of one run."""

    name: str
    parts: tuple[SourcePart, ...]
    unmatched_captures: tuple[str, ...] = ()
    """Captures without replays in this run."""

    @property
    def captures(self) -> tuple[SourcePart, ...]:
        """Parts with capture traces."""
        return tuple(part for part in self.parts if part.role is FileRole.CAPTURE_TRACE)

    def get_trace(self, role: FileRole) -> SourcePart | None:
        """Return the first part with a trace in that role, or None."""
        return next((part for part in self.parts if part.role is role), None)


def strip_extensions(path: Path) -> str:
    """Return the name of a file without extensions."""
    name = path.name
    while (shorter := _SUFFIX.sub("", name)) != name and shorter:
        name = shorter
    return name


def get_common_name(path: Path) -> str:
    """Return the name of a file without extensions and role words. May be empty."""
    name = strip_extensions(path)
    while (shorter := _ROLE_WORD.sub("", name)) != name:
        name = shorter
    return name.strip("-_. ")


def build_run_name(text: str) -> str:
    """Convert ``text`` to a folder name. A hash replaces the end of a long text, which may contain
    the rank."""
    name = _UNSAFE_CHARACTERS.sub("-", text).strip("-.") or "run"
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    return f"{name[: _MAX_NAME_LENGTH - 9]}-{hash_text(text)}"


def hash_text(text: str) -> str:
    """Hash ``text`` to eight characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def group_parts(parts: Sequence[SourcePart], *, join: bool = False) -> list[SourceGroup]:
    """Group ``parts`` into runs. With ``join``, all parts form one run."""
    if join:
        return [SourceGroup(build_run_name(_get_group_name(parts)), _assign_roles(parts))]
    captures = [
        part for part in parts if part.captures and part.source.parent.name == CAPTURES_FOLDER
    ]
    logs = [part for part in parts if _LOG.match(part.source.name) and part.content.compilation]
    groups = _group_by_name([part for part in parts if part not in captures and part not in logs])
    groups = _add_logs(groups, logs)
    joined = [_add_captures(group, captures) for group in groups]
    used_sources = {part.source for group in joined for part in group.parts}
    return [
        *joined,
        *_group_by_name([part for part in captures if part.source not in used_sources]),
    ]


def _add_logs(groups: Sequence[SourceGroup], logs: Sequence[SourcePart]) -> list[SourceGroup]:
    """Add logs to the run of the trace in their folder if unique per rank, or else as separate
    runs."""
    candidates = [
        [index for index, group in enumerate(groups) if _is_log_of(log, group)] for log in logs
    ]
    candidate_counts = Counter(index for indices in candidates for index in indices)
    joined = list(groups)
    unmatched = []
    for log, indices in zip(logs, candidates, strict=True):
        if len(indices) == 1 and candidate_counts[indices[0]] == 1:
            group = joined[indices[0]]
            joined[indices[0]] = replace(group, parts=(*group.parts, log))
        else:
            unmatched.append(log)
    return [*joined, *_group_by_name(unmatched)]


def _is_log_of(log: SourcePart, group: SourceGroup) -> bool:
    trace = group.get_trace(FileRole.REPLAY_TRACE)
    return (
        trace is not None
        and trace.source.parent == log.source.parent
        and not _have_different_ranks(log.source, trace.source)
        and not has_duplicates((*group.parts, log))
    )


def _add_captures(group: SourceGroup, captures: Sequence[SourcePart]) -> SourceGroup:
    replays = group.get_trace(FileRole.REPLAY_TRACE)
    if replays is None or replays.captures or group.get_trace(FileRole.CAPTURE_TRACE) is not None:
        return group
    group_captures = [
        part
        for part in captures
        if part.source.parent.parent == replays.source.parent
        and not _have_different_ranks(part.source, replays.source)
    ]
    return replace(group, parts=_assign_roles((*group.parts, *group_captures)))


def _have_different_ranks(first: Path, second: Path) -> bool:
    ranks = [match.group() for path in (first, second) if (match := _RANK.search(path.name))]
    return len(ranks) == 2 and len({re.sub(r"\D", "", rank) for rank in ranks}) == 2


def _assign_roles(parts: Sequence[SourcePart]) -> tuple[SourcePart, ...]:
    """Reassign roles: next to a pure replay trace, a trace with captures is the capture trace."""
    replays = [part for part in parts if part.role is FileRole.REPLAY_TRACE]
    if len(replays) < 2 or all(part.captures for part in replays):
        return tuple(parts)
    return tuple(
        replace(part, role=FileRole.CAPTURE_TRACE) if part.captures else part for part in parts
    )


def _group_by_name(parts: Sequence[SourcePart]) -> list[SourceGroup]:
    by_name: dict[tuple[str, str, str], list[SourcePart]] = {}
    for part in parts:
        key = (str(part.source.parent), get_common_name(part.source), part.content.label)
        by_name.setdefault(key, []).append(part)
    groups = []
    for (_, _, label), same_name in by_name.items():
        members = _assign_roles(same_name)
        if has_duplicates(members):
            groups += [
                SourceGroup(
                    build_run_name(strip_extensions(part.source) + part.content.label), (part,)
                )
                for part in members
            ]
        else:
            groups.append(SourceGroup(build_run_name(_get_group_name(members) + label), members))
    return groups


def separate_names(groups: Sequence[SourceGroup]) -> list[SourceGroup]:
    """Name groups of the same file name by their folders, if these differ."""
    counts = Counter(group.name for group in groups)
    repeated = [group for group in groups if counts[group.name] > 1]
    folder_names = [build_run_name(_get_folder_name(group)) for group in repeated]
    unique_names = {group.name for group in groups if counts[group.name] == 1}
    if len({*folder_names}) < len(repeated) or not unique_names.isdisjoint(folder_names):
        folder_names = [
            build_run_name(f"{_get_folder_name(group)}-{group.name}") for group in repeated
        ]
    new_names = iter(folder_names)
    return [
        replace(group, name=next(new_names)) if counts[group.name] > 1 else group
        for group in groups
    ]


def _get_folder_name(group: SourceGroup) -> str:
    return group.parts[0].source.resolve().parent.name


def _get_group_name(parts: Sequence[SourcePart]) -> str:
    """Return the common name, or else that of the only file or a parent folder."""
    first_source = parts[0].source
    if name := get_common_name(first_source):
        return name
    if len(parts) == 1:
        return strip_extensions(first_source)
    parent_names = (get_common_name(folder) for folder in first_source.resolve().parents)
    return next((name for name in parent_names if name), strip_extensions(first_source))


def has_duplicates(parts: Sequence[SourcePart]) -> bool:
    """Return True if two parts conflict: two replay traces, two capture traces without replays to
    match, two snapshots, or two torch.compile logs."""
    roles = [part.role for part in parts]
    replays, captures = roles.count(FileRole.REPLAY_TRACE), roles.count(FileRole.CAPTURE_TRACE)
    snapshots = sum(part.content.memory is not None for part in parts)
    logs = sum(part.content.compilation is not None for part in parts)
    return replays > 1 or (captures > 1 and not replays) or max(snapshots, logs) > 1
