"""Send responses without waiting for the browser's acknowledgement of the header.

asyncio does not recognize the socket of Streamlit's server as TCP, so Nagle's algorithm stays on.
Every short response on a kept-alive connection then waits about 40 ms.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Final

_DESCRIPTORS: Final = Path("/proc/self/fd")


def disable_nagle() -> int:
    """Set TCP_NODELAY on the listening TCP sockets of this process and return their number.

    Accepted sockets inherit it on Linux, the only system where the sockets can be found.
    """
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
            # Closed by another thread after listing.
            continue
    return listening
