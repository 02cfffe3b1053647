"""TORCH_TRACE logs of other people, counted twice: by the importer, and by a count that shares no
code with it.

python -m benchmarks.torch_trace_logs FOLDER

FOLDER is looked through for logs, such as a clone of pytorch/tlparse, whose tests have forty. The
table is that of evaluation/reports/2026-11-24-torch-compile.md; the exit code is 1 if the two
disagree.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.registry import SourceKind, detect_format
from graphviz_dash.ingest.formats.torch_trace import read_torch_trace
from graphviz_dash.ingest.limits import DEFAULT_LIMITS

_LINE = re.compile(r"^[A-Z]\d{4} [^\]]*\] (\{.*)")
_USER_LINE = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class LogCounts:
    compilations: int
    """Frames that Dynamo compiled or tried to, attempts at one together."""
    fx_graphs: int
    """Those of which an FX graph came out."""
    breaks: int
    """Graph breaks, those of one compilation and line together."""
    recompiles: int
    """Compilations of a function whose guards had failed."""
    inductor_graphs: int
    """Keys of Inductor's cache."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    disagree = 0
    print("| log | compilations | FX graphs | breaks | recompiles | Inductor's graphs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for path in sorted(log_path for log_path in folder.rglob("*") if log_path.is_file()):
        name = path.relative_to(folder).as_posix()
        try:
            row = detect_format(path)
        except InputError:
            continue
        if row is None or row.kind is not SourceKind.TORCH_TRACE:
            continue
        counts = count(path)
        try:
            read = imported(path)
        except InputError as error:
            print(f"| {name} | not imported: {error} |")
            disagree += 1
            continue
        cells = []
        for field in LogCounts.__annotations__:
            values = getattr(counts, field), getattr(read, field)
            disagree += values[0] != values[1]
            cells.append(
                str(values[0]) if values[0] == values[1] else f"{values[0]}, read {values[1]}"
            )
        print(f"| {name} | {' | '.join(cells)} |")
    return int(disagree > 0)


def imported(path: Path) -> LogCounts:
    summary = read_torch_trace(path, DEFAULT_LIMITS)
    return LogCounts(
        compilations=len(summary.frames),
        fx_graphs=sum(frame.code is not None for frame in summary.frames),
        breaks=len(
            {
                (frame_break.frame, frame_break.lines[:1] or frame_break.reason)
                for frame_break in summary.breaks
            }
        ),
        recompiles=len(summary.recompiles),
        inductor_graphs=len(summary.graphs),
    )


def count(path: Path) -> LogCounts:
    compilations, fx_graphs, keys = set(), set(), set()
    breaks = set()
    recompiles = 0
    for record, payload in _records(path):
        frame = (
            record.get("compiled_autograd_id"),
            record.get("frame_id"),
            record.get("frame_compile_id"),
        )
        artifact = record.get("artifact", {}).get("name", "")
        if "dynamo_start" in record or "compilation_metrics" in record:
            metrics = record.get("compilation_metrics", {})
            if "dynamo_start" in record or metrics.get("co_name") is not None:
                compilations.add(frame)
        if "dynamo_output_graph" in record:
            fx_graphs.add(frame)
        if artifact == "dynamo_graph_break_reason":
            stack = payload.partition("User code traceback")[2].partition("Traceback (most")[0]
            lines = _USER_LINE.findall(stack)
            breaks.add((frame, lines[-1] if lines else payload[:200]))
        recompiles += artifact == "recompile_reasons"
        if re.match(r"fx_graph_(bundled_)?cache_", artifact):
            key = json.loads(payload).get("key") if payload.startswith("{") else None
            keys |= {key} - {None}
    return LogCounts(len(compilations), len(fx_graphs), len(breaks), recompiles, len(keys))


def _records(path: Path) -> Iterator[tuple[dict[str, dict[str, str]], str]]:
    """Each record that is JSON, with its payload."""
    record: dict[str, dict[str, str]] | None = None
    payload: list[str] = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        if line.startswith("\t"):
            payload.append(line[1:])
            continue
        if record is not None:
            yield record, "\n".join(payload)
        match = _LINE.match(line)
        record, payload = None, []
        if match:
            try:
                record = json.loads(match[1])
            except ValueError:
                continue
    if record is not None:
        yield record, "\n".join(payload)


if __name__ == "__main__":
    sys.exit(main())
