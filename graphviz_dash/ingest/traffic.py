"""Reader of request sizes from other sources: server logs, plans, other engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from graphviz_dash.bundle.files import read_regular_file
from graphviz_dash.errors import InputError

if TYPE_CHECKING:
    from graphviz_dash.analysis.arrays import Ints

MAX_REQUESTS: Final = 10_000_000
_MAX_SIZE: Final = 1 << 40
_MAX_BYTES: Final = 256 << 20
_EXPECTED: Final = "a size, or a size and its count, such as `17` or `17 2000`"


def read_traffic(path: Path) -> Ints:
    """Read the sizes in the text file at ``path``, shape (requests,).

    Each line contains a size and optionally, after a comma or blanks, its count. ``#`` starts a
    comment.

    Raises:
        InputError: File not found, not text, an invalid line, no requests or too many.
    """
    try:
        content = read_regular_file(path, _MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise InputError(path, f"more than {_MAX_BYTES:,} bytes", "a smaller file of sizes")
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise InputError(
            path, f"invalid UTF-8 at byte {error.start:,}", "a text file of sizes"
        ) from error
    except OSError as error:
        raise InputError(path, error.strerror or "unreadable", "a text file of sizes") from error
    sizes, counts = [], []
    total = 0
    for number, line in enumerate(lines, 1):
        fields = line.partition("#")[0].replace(",", " ").split()
        if not fields:
            continue
        size, count = _parse_line(fields, f"{path}, line {number}", line)
        sizes.append(size)
        counts.append(count)
        total += count
        if total > MAX_REQUESTS:
            raise InputError(
                path,
                f"more than {MAX_REQUESTS:,} requests",
                "at most this many",
                "Scale the counts down.",
            )
    if not total:
        raise InputError(path, "no sizes", "one line per request or per size")
    return np.repeat(np.array(sizes, dtype=np.int64), counts)


def _parse_line(fields: list[str], source: str, line: str) -> tuple[int, int]:
    is_valid = len(fields) <= 2 and all(
        f.isascii() and f.isdecimal() and len(f) < 14 for f in fields
    )
    if not is_valid:
        raise InputError(source, repr(line[:60]), _EXPECTED)
    size = int(fields[0])
    count = int(fields[1]) if len(fields) == 2 else 1
    if not 0 < size <= _MAX_SIZE:
        raise InputError(source, f"a size of {size:,}", _EXPECTED)
    return size, count
