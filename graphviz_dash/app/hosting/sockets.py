"""Answers leave at once: no waiting for the browser's acknowledgement between head and body.

Streamlit's server is given a socket whose protocol asyncio does not know for TCP, so that it leaves
Nagle's algorithm on; the body of every short answer on a connection that is kept then waits some
40 ms for the delayed acknowledgement of its head.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Final

_DESCRIPTORS: Final = Path("/proc/self/fd")


def no_delay() -> int:
    """Sets TCP_NODELAY on the TCP sockets that this process listens on; what they accept inherits
    it on Linux, the only system where they can be found. Returns how many there are."""
    listening = 0
    if not _DESCRIPTORS.is_dir():
        return listening
    for name in os.listdir(_DESCRIPTORS):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as candidate:
                is_tcp = candidate.family in (socket.AF_INET, socket.AF_INET6)
                if is_tcp and candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    listening += 1
        except OSError:
            # Closed by another thread since it was listed.
            continue
    return listening
