"""Write a profiler's trace and detect a full disk.

torch's writer reports no error on a full disk and uses the temporary folder. This module writes
next to the target and verifies the result.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from torch.profiler import profile

Reduction: TypeAlias = Callable[[bytes], bytes]

_LEVEL: Final = 6
_TAIL: Final = 64


def export_trace(profiler: profile, target: Path, reduce: Reduction | None = None) -> None:
    """Write the trace to ``target``, gzip-compressed, with torch's text unchanged or reduced.

    Raises:
        OSError: The disk is full, or the file exceeds the size limit.
    """
    # Use a separate folder, since the target may also be named trace.json.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        plain = Path(scratch) / "trace.json"
        # torch stores the path in the trace; a bundle names no local folder.
        with contextlib.chdir(scratch):
            profiler.export_chrome_trace(plain.name)
        with plain.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            if not file.read().rstrip().endswith(b"}"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(plain))
        compress_trace(plain, target, reduce)


def compress_trace(plain: Path, target: Path, reduce: Reduction | None = None) -> None:
    """Compress ``plain`` into ``target`` with gzip, after an optional reduction."""
    with plain.open("rb") as file, gzip.open(target, "wb", compresslevel=_LEVEL) as packed:
        if reduce is None:
            shutil.copyfileobj(file, packed, 1 << 20)
        else:
            packed.write(reduce(file.read()))
