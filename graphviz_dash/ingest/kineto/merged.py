"""Separation of a merged trace into one file per process.

Merging tools (SGLang, aorta) rename processes, but keep correlation ids, which repeat in each rank.
GPU work is therefore assigned by lane names, by ids of only one process, or by the only assignment
in which no work precedes its launch.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from isal import igzip
from msgspec import Struct

from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto.events import GPU_CATEGORIES
from graphviz_dash.ingest.kineto.json_stream import ArrayReader
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.units import pluralize

Process: TypeAlias = int | str
_Lane: TypeAlias = tuple[Process, int]
"""Process and device of a piece of GPU work, as in the file."""

_LABEL: Final = re.compile(r"\[(?P<label>[^\]]*\d)\] ?(?P<process>-?\d+)$")
"""Process in a trace merged by SGLang, such as ``[TP00] 100``."""
_LAUNCH: Final = re.compile(r"[a-z]+(?:Module)?(?:Graph)?Launch(?!HostFunc)|Memcpy|Memset")
_SLACK_US: Final = 1.0
"""Resolution of clocks: work may precede its launch by this much."""
_MAX_PROCESSES: Final = 256
_RANK_FIELD: Final = "distributedInfo"
_COMPRESSION: Final = 1


class MergedProcess(Struct, frozen=True):
    """One process of a merged trace."""

    path: Path
    label: str
    """Name within the file, for the name of its run."""


class _Args(Struct, frozen=True):
    correlation: Any = -1
    device: Any = -1


class _Row(Struct, frozen=True):
    """Fields of an event that decide its process."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Process = -1
    ts: Any = 0.0
    args: _Args = _Args()


class InseparableError(Exception):
    """Reason why processes cannot be separated."""


def separate_processes(path: Path, folder: Path, limits: Limits) -> tuple[MergedProcess, ...]:
    """Write the events of each process of a merged trace to a file in ``folder``.

    Events of processes without launches are omitted.

    Raises:
        InseparableError: The file does not show the process of some GPU work.
        InputError: As in :func:`graphviz_dash.ingest.kineto.reader.read_trace`.
    """
    owners = _find_owners(path, limits)
    labels = _build_labels(owners.processes)
    targets = {process: folder / f"process-{index}.json.gz" for index, process in enumerate(labels)}
    _write_processes(path, limits, owners, targets)
    return tuple(MergedProcess(targets[process], label) for process, label in labels.items())


class _Owners(Struct, frozen=True):
    """Process of GPU work, by lane or else by correlation id."""

    processes: tuple[Process, ...]
    by_lane: Mapping[_Lane, Process]
    by_id: Mapping[int, Process]
    """Process of each id; used for other lanes."""

    def find(self, row: _Row) -> Process | None:
        """Find the process of an event. None for others, such as data loaders and metadata."""
        if row.cat not in GPU_CATEGORIES:
            return row.pid if row.pid in self.processes else None
        owner = self.by_lane.get(_get_lane(row))
        return self.by_id.get(_get_number(row.args.correlation)) if owner is None else owner


def _find_owners(path: Path, limits: Limits) -> _Owners:
    """Find the process of each piece of GPU work. Raises InseparableError."""
    calls: defaultdict[Process, dict[int, float]] = defaultdict(dict)
    launching: set[Process] = set()
    work: defaultdict[_Lane, list[tuple[int, float]]] = defaultdict(list)
    for _, row in _iter_rows(path, limits):
        if row.ph != "X":
            continue
        number = _get_number(row.args.correlation)
        if row.cat in GPU_CATEGORIES:
            work[_get_lane(row)].append((number, _get_time(row)))
        elif number >= 0 and row.cat.endswith(("runtime", "driver", "Runtime")):
            calls[row.pid].setdefault(number, _get_time(row))
            if _LAUNCH.search(row.name):
                launching.add(row.pid)
    processes = tuple(process for process in calls if process in launching)
    if not 1 < len(processes) <= _MAX_PROCESSES:
        raise InseparableError(f"{pluralize(len(processes), 'process')} launch work")
    by_label = _match_labels(processes, work)
    if by_label is not None:
        return _Owners(processes, by_label, {})
    ids = [number for process in processes for number in calls[process]]
    if len(set(ids)) == len(ids):
        by_id = {number: process for process in processes for number in calls[process]}
        return _Owners(processes, _match_lanes_by_id(work, by_id), by_id)
    return _Owners(processes, _match_lanes_by_time(processes, calls, work), {})


def _match_labels(
    processes: Sequence[Process], work: Iterable[_Lane]
) -> dict[_Lane, Process] | None:
    """Match lanes by the labels of their names. None if names have no labels."""
    labels = {_get_label(process): process for process in processes}
    if None in labels or len(labels) < len(processes):
        return None
    matches = {lane: labels.get(_get_label(lane[0])) for lane in work}
    owners = {lane: owner for lane, owner in matches.items() if owner is not None}
    return owners if len(owners) == len(matches) else None


def _match_lanes_by_id(
    work: Mapping[_Lane, Sequence[tuple[int, float]]], by_id: Mapping[int, Process]
) -> dict[_Lane, Process]:
    """Match the lanes whose ids all belong to one process."""
    owners = {}
    for lane, items in work.items():
        options = {by_id[number] for number, _ in items if number in by_id}
        if len(options) == 1:
            owners[lane] = options.pop()
        elif any(number not in by_id for number, _ in items):
            raise InseparableError(
                f"work without a launch runs on {_format_lane(lane)}, which several processes use"
            )
    return owners


def _match_lanes_by_time(
    processes: Sequence[Process],
    calls: Mapping[Process, Mapping[int, float]],
    work: Mapping[_Lane, Sequence[tuple[int, float]]],
) -> dict[_Lane, Process]:
    """Match lanes and processes that share ids: no work may precede its launch.

    Ambiguous lanes are matched by number if all pairs have the same difference.
    """
    candidates = {
        lane: [process for process in processes if _can_launch(calls[process], items)]
        for lane, items in work.items()
    }
    if len(candidates) == len(processes):
        differences = {
            lane[0] - process if isinstance(lane[0], int) and isinstance(process, int) else None
            for lane, process in zip(
                sorted(candidates, key=_sort_key), sorted(processes, key=_sort_key), strict=True
            )
        }
        if len(differences) == 1 and None not in differences:
            (difference,) = differences
            matches: dict[_Lane, Process] = {
                lane: process
                for lane, owners in candidates.items()
                for process in owners
                if isinstance(lane[0], int) and isinstance(process, int)
                if lane[0] - process == difference
            }
            if len(matches) == len(work):
                return matches
        _match_one_to_one(candidates)
    owners: dict[_Lane, Process] = {}
    for lane, options in candidates.items():
        if len(options) != 1:
            raise InseparableError(
                f"the work on {_format_lane(lane)} may belong to "
                f"{pluralize(len(options), 'process')}, because they share correlation ids"
            )
        owners[lane] = options[0]
    idle = [process for process in processes if process not in owners.values()]
    if idle:
        raise InseparableError(
            f"{pluralize(len(idle), 'process')} with launches would have no GPU work, and "
            "processes share correlation ids"
        )
    return owners


def _match_one_to_one(candidates: Mapping[_Lane, list[Process]]) -> None:
    final_lanes: set[_Lane] = set()
    while new := [
        lane for lane in candidates if len(candidates[lane]) == 1 and lane not in final_lanes
    ]:
        for lane in new:
            final_lanes.add(lane)
            for other in candidates.keys() - final_lanes:
                if candidates[lane][0] in candidates[other]:
                    candidates[other].remove(candidates[lane][0])


def _can_launch(calls: Mapping[int, float], items: Sequence[tuple[int, float]]) -> bool:
    leads = np.array([calls[number] - start for number, start in items if number in calls])
    return bool(len(leads)) and bool(leads.max() <= _SLACK_US)


def _sort_key(value: Process | _Lane) -> tuple[int, str]:
    name = value[0] if isinstance(value, tuple) else value
    return (name, "") if isinstance(name, int) else (0, name)


def _get_label(process: Process) -> str | None:
    match = _LABEL.match(process) if isinstance(process, str) else None
    return match["label"] if match else None


def _get_lane(row: _Row) -> _Lane:
    return row.pid, _get_number(row.args.device)


def _format_lane(lane: _Lane) -> str:
    return f"lane {str(lane[0])[:40]!r}" + (f", device {lane[1]}" if lane[1] >= 0 else "")


def _get_number(value: object) -> int:
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() else -1


def _get_time(row: _Row) -> float:
    try:
        return float(row.ts)
    except (TypeError, ValueError):
        return 0.0


def _build_labels(processes: Sequence[Process]) -> dict[Process, str]:
    labels = {process: _get_label(process) for process in processes}
    if None not in labels.values():
        return {process: f"-{label}" for process, label in sorted(labels.items(), key=str)}
    return {
        process: f"-pid{process if isinstance(process, int) else zlib.crc32(process.encode())}"
        for process in sorted(processes, key=_sort_key)
    }


def _write_processes(
    path: Path, limits: Limits, owners: _Owners, targets: Mapping[Process, Path]
) -> None:
    ranks = {process: index for index, process in enumerate(targets)}
    has_ranks = all(_get_label(process) for process in targets)
    files = {process: igzip.open(target, "wb", _COMPRESSION) for process, target in targets.items()}  # type: ignore[no-untyped-call]
    try:
        for file in files.values():
            file.write(b'{"traceEvents": [\n')
        separators = dict.fromkeys(files, b"")
        with ByteStream(path, limits, replaces_nul=True) as stream:
            reader = _build_reader(stream, limits)
            for raw, row in _iter_pieces(reader):
                owner = owners.find(row)
                if owner is None:
                    continue
                files[owner].write(separators[owner] + _rename_process(bytes(raw), row.pid))
                separators[owner] = b",\n"
        for process, file in files.items():
            fields = {name: value for name, value in reader.fields.items() if name != _RANK_FIELD}
            if has_ranks:
                fields[_RANK_FIELD] = {"rank": ranks[process], "world_size": len(ranks)}
            # The parts of a truncated file are truncated too.
            if reader.damage is None:
                file.write(b"\n], " + msgspec.json.encode({"schemaVersion": 1, **fields})[1:])
    finally:
        for file in files.values():
            file.close()


def _rename_process(raw: bytes, process: Process) -> bytes:
    match = _LABEL.match(process) if isinstance(process, str) else None
    if match is None:
        return raw
    text = re.escape(msgspec.json.encode(process))
    pattern = rb'("pid"\s*:\s*)' + text
    return re.sub(pattern, rb"\g<1>" + match["process"].encode(), raw, count=1)


def _build_reader(stream: ByteStream, limits: Limits) -> ArrayReader[msgspec.Raw]:
    return ArrayReader(stream, "traceEvents", _raw_decoder.decode, _decode_leniently, limits)


def _iter_rows(path: Path, limits: Limits) -> Iterator[tuple[msgspec.Raw, _Row]]:
    with ByteStream(path, limits, replaces_nul=True) as stream:
        yield from _iter_pieces(_build_reader(stream, limits))


def _iter_pieces(reader: ArrayReader[msgspec.Raw]) -> Iterator[tuple[msgspec.Raw, _Row]]:
    for piece in reader:
        for raw in piece or ():
            try:
                yield raw, _row_decoder.decode(raw)
            except msgspec.ValidationError:
                continue


def _decode_leniently(piece: bytes) -> list[msgspec.Raw]:
    """Decode a piece with invalid UTF-8 or control characters. Raises ValueError."""
    text = "".join(c if c >= " " else " " for c in piece.decode("utf-8", "replace"))
    try:
        return _raw_decoder.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


_raw_decoder: Final[msgspec.json.Decoder[list[msgspec.Raw]]] = msgspec.json.Decoder(
    list[msgspec.Raw]
)
_row_decoder: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(_Row)
