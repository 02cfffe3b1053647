"""Read the code of the source lines in a capture's trace.

Runs after the program. A file that is missing, ambiguous or newer than the trace has a reason
instead of code.
"""

from __future__ import annotations

import gzip
import linecache
import re
import stat
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.frames import FRAME, LIBRARY_FRAME
from graphviz_dash.model.marks import SOURCE
from graphviz_dash.model.source_code import MAX_CODE_LENGTH, MAX_LINES, SourceCode

ORIGIN: Final = "read from the files of the program when the run was recorded"

_NAME: Final = re.compile(
    rb'"name": *("(?:' + re.escape(SOURCE).encode() + rb'[^"]+|[^"]*?\(\d+\): [^"]*)")'
)
_GZIP: Final = b"\x1f\x8b"
_CHUNK: Final = 4 << 20
_OVERLAP: Final = 4_096
"""Maximum length of a name, in bytes: chunks overlap by it."""
_MAX_TRACE_BYTES: Final = 1 << 30
"""Uncompressed bytes of a trace that are searched for lines."""
_MAX_FILE_BYTES: Final = 8 << 20


def read_source_code(trace: Path, folders: Sequence[Path] = ()) -> SourceCode | None:
    """Read the code of the lines named in a Kineto ``trace``, compressed or not.

    Searches relative files in the working folder, ``folders`` and ``sys.path``. Returns None if the
    trace names no line, or is unreadable.
    """
    try:
        trace_time = trace.stat().st_mtime
        lines = _list_lines(trace)
    except (OSError, EOFError, zlib.error):
        return None
    if not lines:
        return None
    roots = list(dict.fromkeys([*_find_working_folder(), *folders, *map(Path, sys.path)]))
    code: dict[str, str] = {}
    missing: dict[str, str] = {}
    for file, numbers in lines.items():
        content = _read_file(file, roots, trace_time)
        if isinstance(content, Missing):
            missing[file] = content.reason
            continue
        for number in numbers:
            if number > len(content):
                missing[file] = f"the file has only {len(content)} lines"
            elif len(code) == MAX_LINES:
                missing[file] = f"the run has more than {MAX_LINES:,} lines"
            else:
                code[f"{file}:{number}"] = content[number - 1].strip()[:MAX_CODE_LENGTH]
    return SourceCode(ORIGIN, code, missing)


def _find_working_folder() -> list[Path]:
    # A program may have deleted its working folder.
    with suppress(FileNotFoundError):
        return [Path.cwd()]
    return []


def _list_lines(trace: Path) -> dict[str, list[int]]:
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for name in _list_names(trace):
        if name.startswith(SOURCE):
            file, _, line = name.removeprefix(SOURCE).rpartition(":")
            if file and line.isdecimal():
                numbers[file].add(int(line))
        elif not LIBRARY_FRAME.search(name) and (frame := FRAME.match(name)):
            numbers[frame[1]].add(int(frame[2]))
    return {file: sorted(lines) for file, lines in sorted(numbers.items())}


def _list_names(trace: Path) -> set[str]:
    texts: set[bytes] = set()
    with trace.open("rb") as file:
        has_gzip_header = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        with gzip.GzipFile(fileobj=file) if has_gzip_header else file as content:
            for chunk in _iter_chunks(content):
                texts.update(_NAME.findall(chunk))
    names = set()
    for text in texts:
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            names.add(msgspec.json.decode(text, type=str))
    return names


def _iter_chunks(content: gzip.GzipFile | IO[bytes]) -> Iterator[bytes]:
    """Read chunks that overlap, so that no name is cut in all of them."""
    end = b""
    size = 0
    while size < _MAX_TRACE_BYTES and (chunk := content.read(_CHUNK)):
        size += len(chunk)
        yield end + chunk
        end = chunk[-_OVERLAP:]


def _read_file(file: str, roots: Sequence[Path], trace_time: float) -> list[str] | Missing:
    contents: list[list[str]] = []
    reason = "the file was not found"
    for path in dict.fromkeys(root / file for root in roots):
        try:
            status = path.stat()
        except (OSError, ValueError):
            continue
        if not stat.S_ISREG(status.st_mode):
            reason = "not a file"
        elif status.st_size > _MAX_FILE_BYTES:
            reason = "the file is too large"
        elif status.st_mtime > trace_time:
            reason = "the file changed after the capture"
        elif not (lines := linecache.getlines(str(path))):
            reason = "the file is empty or unreadable"
        else:
            contents.append(lines)
            continue
        return Missing(Fact.SOURCE_CODE, reason)
    if not contents:
        return Missing(Fact.SOURCE_CODE, reason)
    if any(lines != contents[0] for lines in contents):
        return Missing(Fact.SOURCE_CODE, "several files have this name")
    return contents[0]
