"""Parser of torch's structured trace (written by TORCH_TRACE, read by tlparse).

Supports torch 2.6 to 2.13 and skips unknown or unexpected records without an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from graphviz_dash.bundle.compile_stacks import (
    Shorten,
    build_user_line,
    extract_stack_lines,
    is_user_file,
    parse_function_name,
    shorten_paths,
)
from graphviz_dash.model.compilation import (
    CompiledFrame,
    CompiledGraph,
    GraphBreak,
    GraphSkip,
    Recompile,
    UserLine,
)

T = TypeVar("T")

STRUCTURED_SOURCE: Final = "structured trace (TORCH_TRACE)"
"""Source of the facts of a :class:`CompileLog`."""

RECORD_ERRORS: Final = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
"""Exceptions caused by records of an unexpected shape."""

_MAX_CODE_LENGTH: Final = 20_000
_MAX_BREAK_LENGTH: Final = 100_000
_MAX_REASON_LENGTH: Final = 300
_MAX_EXPLANATION_LENGTH: Final = 2_000
_MAX_FRAMES: Final = 20_000
_MAX_CALLERS: Final = 12

_BREAK_REASON: Final = re.compile(r"^(?:Graph Break )?Reason: (?P<text>.*)", re.S | re.M)
_ATTEMPT_PREFIX: Final = re.compile(
    r"^(?:(?:Encountered graph break (?:when attempting to trace|that we cannot resume)|"
    r"Failed to handle graph break gracefully)[^\n]*\n+)+"
)
_EXPLANATION_PATTERN: Final = re.compile(
    r"^[ \t]*Explanation: (.*?)(?=^[ \t]*(?:Hint:|Developer debug)|\Z)", re.S | re.M
)
_HINT: Final = re.compile(
    r"^[ \t]*Hint: (.*?)(?=^[ \t]*(?:Hint:|Developer debug|For more)|\n[ \t]*\n|\Z)", re.S | re.M
)
_EAGER_FALLBACK: Final = re.compile(
    r"cannot properly resume|fall back to eager|falling back to eager|[Ss]kipping the function"
)
_LINK: Final = re.compile(r"please visit: (https://\S+)")
_BREAK_LOCATION: Final = re.compile(
    r"^Graph break in user code at (?P<file>.+):(?P<line>\d+)$", re.M
)
_TRACEBACK: Final = re.compile(r"^User code traceback:\n|following user code:\n", re.M)
_DYNAMO_TRACEBACK: Final = re.compile(
    r"^(Traceback \(most recent call last\)|NoneType: None)", re.M
)
_GUARD_PREFIX: Final = re.compile(r"^\d+/\d+: ")
_NOTE_LOCATION: Final = re.compile(r"(?P<file>\S+\.py):(?P<line>\d+) in (?P<name>\S+)")
_MAX_NOTE_PARTS: Final = 20
_SKIP_PREFIX: Final = re.compile(r"^(?:skipping|disabling) cudagraphs? (?:due to )?")
_STACK_SUFFIX: Final = re.compile(r"\.? ?Found from ?:")
_GUARD_TIME: Final = re.compile(r"Guard latency = ([\d.]+) us")


class CompileLog:
    """Facts collected from records.

    Args:
        shorten: Shortens a file path for the bundle.
        files: Returns the numbers of file names that the records do not define, in the order of
            their addition.
    """

    def __init__(
        self, shorten: Shorten, files: Callable[[], Mapping[str, int]] = dict[str, int]
    ) -> None:
        self.frames: dict[str, CompiledFrame] = {}
        self.breaks: list[GraphBreak] = []
        self.recompiles: list[Recompile] = []
        self.graphs: dict[str, CompiledGraph] = {}
        self.skips: list[GraphSkip] = []
        self.torch: str | None = None
        self._recompile_indices: dict[str | None, int] = {}
        self.records = 0
        self._shorten = shorten
        self._files: dict[int, str] = {}
        self._get_known_files = files
        self._known_files = 0

    def record(self, metadata: Mapping[str, Any], payload: str | None) -> None:
        """Process one record. Records of an unexpected shape are skipped."""
        try:
            self._process_record(metadata, payload or "")
        except RECORD_ERRORS:
            return

    def _process_record(self, metadata: Mapping[str, Any], payload: str) -> None:
        if "str" in metadata:
            name, number = metadata["str"]
            self._files[int(number)] = str(name)
            return
        frame = format_frame_id(metadata)
        if "artifact" in metadata:
            self._process_artifact(str(metadata["artifact"]["name"]), frame, payload)
        elif frame is None:
            return
        elif "dynamo_start" in metadata:
            if frame not in self.frames or not metadata.get("attempt"):
                # torch._dynamo.reset() restarts the ids; the latest compilation is the active one.
                self._add_frame(frame, metadata["dynamo_start"]["stack"])
        elif "dynamo_output_graph" in metadata:
            self._update_frame(frame, code=self._shorten_paths(payload)[:_MAX_CODE_LENGTH] or None)
        elif "dynamo_cpp_guards_str" in metadata:
            match = _GUARD_TIME.search(payload)
            if match:
                self._update_frame(frame, guard_ns=round(float(match[1]) * 1e3))
        elif "compilation_metrics" in metadata:
            self._process_metrics(frame, metadata["compilation_metrics"])

    def _process_artifact(self, name: str, frame: str | None, payload: str) -> None:
        if name == "torch_version":
            self.torch = check_value(
                str(json.loads(payload)["pytorch_version"])[:_MAX_REASON_LENGTH], str
            )
        elif name == "dynamo_graph_break_reason":
            self._add_break(frame, payload[:_MAX_BREAK_LENGTH])
        elif name == "recompile_reasons":
            self._process_recompile(frame, payload)
        elif name.startswith(("fx_graph_cache_", "fx_graph_bundled_cache_")):
            self._add_graph(name, frame, payload)

    def _add_frame(self, frame: str, stack: Sequence[Mapping[str, Any]]) -> None:
        *callers, function = stack
        name, resumed_at = parse_function_name(str(function["name"]))
        if len(self.frames) >= _MAX_FRAMES:
            return
        self.records += 1
        file = self._resolve_file(function)
        entry = CompiledFrame(
            id=frame,
            function=name,
            location=None
            if file is None
            else build_user_line(file, int(function["line"]), name, None, self._shorten),
            is_continuation=resumed_at is not None,
            callers=tuple(self._extract_callers(callers)),
        )
        self.frames[frame] = check_value(entry, CompiledFrame)

    def _extract_callers(self, stack: Sequence[Mapping[str, Any]]) -> list[UserLine]:
        lines: list[UserLine] = []
        for frame in reversed(stack):
            if len(lines) == _MAX_CALLERS:
                break
            file = self._resolve_file(frame)
            if file is not None and is_user_file(file):
                lines.append(
                    build_user_line(
                        file,
                        int(frame["line"]),
                        str(frame.get("name", "")) or None,
                        frame.get("loc"),
                        self._shorten,
                    )
                )
        return lines

    def _resolve_file(self, line: Mapping[str, Any]) -> str | None:
        file = line.get("filename")
        if not isinstance(file, int):
            return file
        if file not in self._files:
            # Each name is recorded once per process, possibly before the recording started.
            table = self._get_known_files()
            if len(table) > self._known_files:
                for name, number in islice(table.items(), self._known_files, None):
                    self._files.setdefault(number, name)
                self._known_files = len(table)
        return self._files.get(file)

    def _update_frame(self, frame: str, **facts: Any) -> None:
        if frame not in self.frames:
            return
        # Separately, so that one of an unexpected type costs no other.
        for name, fact in facts.items():
            with suppress(*RECORD_ERRORS):
                entry = msgspec.structs.replace(self.frames[frame], **{name: fact})
                self.frames[frame] = check_value(entry, CompiledFrame)

    def _process_metrics(self, frame: str, metrics: Mapping[str, Any]) -> None:
        if metrics.get("is_forward") is False:
            return
        if frame not in self.frames and metrics.get("co_name") is not None:
            self._add_frame(
                frame,
                [
                    {
                        "name": metrics["co_name"],
                        "filename": str(metrics["co_filename"]),
                        "line": metrics["co_firstlineno"],
                    }
                ],
            )
        latency = metrics.get("guard_latency_us")
        failed = metrics.get("fail_reason")
        facts: dict[str, Any] = {
            "nodes": metrics.get("graph_op_count"),
            "inputs": metrics.get("graph_input_count"),
            "guards": metrics.get("guard_count"),
            "compile_ns": _convert_to_ns(metrics.get("entire_frame_compile_time_s"), 1e9)
            or _convert_to_ns(metrics.get("duration_us"), 1e3),
            "guard_ns": _convert_to_ns(latency, 1e3),
            "failure": None
            if failed is None
            else _get_first_line(self._shorten_paths(str(failed)))[:_MAX_REASON_LENGTH],
        }
        self._update_frame(
            frame, **{name: fact for name, fact in facts.items() if fact is not None}
        )
        skipped = metrics.get("cudagraph_skip_reason")
        if skipped:
            lines = extract_stack_lines(str(skipped), self._shorten)
            skip = GraphSkip(frame, extract_skip_reason(self._shorten_paths(str(skipped))), lines)
            self.skips.append(check_value(skip, GraphSkip))
        if "RecompileLimit" in str(metrics.get("fail_type")):
            self.record_limit(frame, None)

    def _add_break(self, frame: str | None, payload: str) -> None:
        self.records += 1
        head, _, remainder = _split_at(_TRACEBACK, payload)
        lines = extract_stack_lines(_split_at(_DYNAMO_TRACEBACK, remainder)[0], self._shorten)
        match = _BREAK_REASON.search(head)
        reason = self._shorten_paths(
            _ATTEMPT_PREFIX.sub("", match["text"] if match else head).strip()
        )
        if not lines and (location := _BREAK_LOCATION.search(head)):
            lines = (
                build_user_line(location["file"], int(location["line"]), None, None, self._shorten),
            )
        explained = _EXPLANATION_PATTERN.search(reason)
        link = _LINK.search(reason)
        graph_break = GraphBreak(
            frame=frame,
            reason=_get_first_line(reason)[:_MAX_REASON_LENGTH],
            explanation=" ".join(explained[1].split())[:_MAX_EXPLANATION_LENGTH]
            if explained
            else None,
            hints=tuple(
                " ".join(hint.split())[:_MAX_REASON_LENGTH] for hint in _HINT.findall(reason)
            )[:6],
            link=link[1] if link else None,
            lines=lines,
            runs_eagerly=_EAGER_FALLBACK.search(head) is not None,
        )
        graph_break = check_value(graph_break, GraphBreak)
        recent = [(old.frame, old.lines[:1]) for old in self.breaks[-4:]]
        if (graph_break.frame, graph_break.lines[:1]) in recent:
            # Recorded at the break, and again when Dynamo gives up the frame.
            index = (
                len(self.breaks)
                - len(recent)
                + recent.index((graph_break.frame, graph_break.lines[:1]))
            )
            runs_eagerly = graph_break.runs_eagerly or self.breaks[index].runs_eagerly
            self.breaks[index] = msgspec.structs.replace(
                self.breaks[index], runs_eagerly=runs_eagerly
            )
        else:
            self.breaks.append(graph_break)

    def _process_recompile(self, frame: str | None, payload: str) -> None:
        reasons = json.loads(payload) if payload.startswith("[") else [payload]
        self._add_recompile(self._build_recompile(frame, reasons, limit=False))

    def record_limit(self, frame: str | None, reason: str | None) -> None:
        """Record that ``frame`` reached the recompile limit, most recently because of
        ``reason``."""
        new = self._build_recompile(frame, [reason] if reason else [], limit=True)
        index = self._recompile_indices.get(frame)
        if index is None:
            self._add_recompile(new)
            return
        # Recorded twice: by a log with the reason, and by the metrics without it.
        recompile = self.recompiles[index]
        self.recompiles[index] = msgspec.structs.replace(
            recompile,
            guards=recompile.guards or new.guards,
            lines=recompile.lines or new.lines,
            limit_reached=True,
        )

    def _add_recompile(self, recompile: Recompile) -> None:
        self._recompile_indices.setdefault(recompile.frame, len(self.recompiles))
        self.recompiles.append(recompile)

    def _build_recompile(
        self, frame: str | None, reasons: Sequence[Any], *, limit: bool
    ) -> Recompile:
        self.records += 1
        guards: list[str] = []
        lines: list[UserLine] = []
        for reason in reasons:
            first_line = str(reason).strip().partition("\n")[0]
            guard, _, note = _GUARD_PREFIX.sub("", first_line).partition("  # ")
            guards.append(self._shorten_paths(guard).strip()[:_MAX_REASON_LENGTH])
            stack = extract_stack_lines(str(reason), self._shorten)[:1]
            lines.extend(stack or self._parse_guard_note(note))
        recompile = Recompile(
            frame, tuple(dict.fromkeys(guards)), tuple(dict.fromkeys(lines)), limit
        )
        return check_value(recompile, Recompile)

    def _shorten_paths(self, text: str) -> str:
        return shorten_paths(text, self._shorten)

    def _parse_guard_note(self, note: str) -> tuple[UserLine, ...]:
        """Parse the location in a note, ``[code  # ]file.py:12 in name``."""
        parts = note.split(" # ", _MAX_NOTE_PARTS)
        for index in range(len(parts)):
            match = _NOTE_LOCATION.match(" # ".join(parts[index:]))
            if match is None:
                continue
            code = " # ".join(parts[:index]).rstrip() if index else None
            line = int(match["line"])
            return (build_user_line(match["file"], line, match["name"], code, self._shorten),)
        return ()

    def _add_graph(self, name: str, frame: str | None, payload: str) -> None:
        record = json.loads(payload)
        key = record.get("key")
        if key is None or key in self.graphs:
            return
        self.records += 1
        text = " ".join(part for part in record.get("components") or () if "is_backward" in part)
        backward = re.search(r"fx_kwargs\[is_backward\]: (True|False)", text)
        graph = CompiledGraph(
            frame=frame,
            key=str(key),
            backward=None if backward is None else backward[1] == "True",
            cached=name.endswith("_hit"),
        )
        self.graphs[str(key)] = check_value(graph, CompiledGraph)


def format_frame_id(metadata: Mapping[str, Any]) -> str | None:
    """Format torch's id of a record's compilation as in traces: ``0/1``, or ``!2/0/1`` under
    compiled autograd."""
    frame, attempt = metadata.get("frame_id"), metadata.get("frame_compile_id")
    autograd = metadata.get("compiled_autograd_id")
    if frame is None or attempt is None:
        return None if autograd is None else f"!{autograd}"
    return f"{frame}/{attempt}" if autograd is None else f"!{autograd}/{frame}/{attempt}"


def extract_skip_reason(text: str) -> str:
    """Extract Inductor's reason not to record a graph, on one line."""
    first_line = _STACK_SUFFIX.split(text.strip().partition("\n")[0])[0]
    return _SKIP_PREFIX.sub("", first_line).strip(" .")[:_MAX_REASON_LENGTH]


def check_value(value: T, kind: type[T]) -> T:
    """Return ``value`` if a bundle can hold it, or raise one of ``RECORD_ERRORS``."""
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


def _split_at(mark: re.Pattern[str], text: str) -> tuple[str, str, str]:
    match = mark.search(text)
    if match is None:
        return text, "", ""
    return text[: match.start()], match[0], text[match.end() :]


def _get_first_line(reason: str) -> str:
    return next((line.strip() for line in reason.splitlines() if line.strip()), "unknown reason")


def _convert_to_ns(value: float | None, scale: float) -> int | None:
    return None if value is None or value < 0 else round(value * scale)
