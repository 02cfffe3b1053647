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
from pathlib import Path
from typing import Final

from torch.profiler import profile

_LEVEL: Final = 6
_TAIL: Final = 64


def export_trace(profiler: profile, target: Path) -> None:
    """Writes the trace to ``target``, gzip-compressed, its text as torch made it.

    Raises:
        OSError: the disk is full, or the file may not be so large.
    """
    plain = target.with_name("trace.json")
    # The path it is given goes into the trace; a bundle names no folder of this machine.
    with contextlib.chdir(target.parent):
        profiler.export_chrome_trace(plain.name)
    with plain.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        if not file.read().rstrip().endswith(b"}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(plain))
        file.seek(0)
        with gzip.open(target, "wb", compresslevel=_LEVEL) as packed:
            shutil.copyfileobj(file, packed, 1 << 20)
    plain.unlink()
