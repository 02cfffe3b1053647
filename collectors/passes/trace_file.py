"""Writing a profiler's trace so that a full disk is noticed.

torch writes it from C++, which says nothing when the disk is full, and through the folder for
temporary files, which may be on another disk. Here it goes beside its place and is looked at.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch.profiler import profile

_LEVEL: Final = 6
_TAIL: Final = 64


def export_trace(profiler: profile, target: Path) -> None:
    """Writes the trace to ``target``, gzip-compressed whatever its name, its text as torch made it.

    Raises:
        OSError: the disk is full, or the file may not be so large.
    """
    # A folder of its own: the target may be called trace.json too.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        plain = Path(scratch) / "trace.json"
        # The path it is given goes into the trace; a bundle names no folder of this machine.
        with contextlib.chdir(scratch):
            profiler.export_chrome_trace(plain.name)
        with plain.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            if not file.read().rstrip().endswith(b"}"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(plain))
            file.seek(0)
            with gzip.open(target, "wb", compresslevel=_LEVEL) as packed:
                shutil.copyfileobj(file, packed, 1 << 20)
