"""Read CUPTI's graph launch records from the library that torch loaded.

Enable them before a graph is instantiated: launching an earlier graph crashes the process in the
driver (CUPTI 13.0, driver 580). Source: cupti_activity.h of CUDA 13.0; the first four fields of
CUpti_ActivityGraphTrace2 equal those of CUpti_ActivityGraphTrace.
"""

from __future__ import annotations

import ctypes
from typing import Final

_GRAPH_TRACE: Final = 51
"""CUPTI_ACTIVITY_KIND_GRAPH_TRACE."""

_BUFFER: Final = 1 << 20
_FORCED: Final = 1
"""CUPTI_ACTIVITY_FLAG_FLUSH_FORCED."""

_Requested = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_Completed = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
)


class _GraphTrace(ctypes.Structure):
    """First fields of CUpti_ActivityGraphTrace2; times in ns."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("correlation", ctypes.c_uint32),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
    ]


class GraphRecorder:
    """Records graph launches from :meth:`start` on.

    Raises, from every method:
        OSError: The library is missing, or CUPTI returned an error code, given in the message.
    """

    def __init__(self, cuda_major: str) -> None:
        self._cupti = ctypes.CDLL(f"libcupti.so.{cuda_major}")
        self._buffers: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.work: list[tuple[int, int]] = []
        # Keep references: CUPTI calls them for the life of the process.
        self._requested = _Requested(self._provide_buffer)
        self._completed = _Completed(self._read_buffer)

    def start(self) -> None:
        """Enable the records."""
        self._call("cuptiActivityRegisterCallbacks", self._requested, self._completed)
        self._call("cuptiActivityEnable", _GRAPH_TRACE)

    def stop(self) -> None:
        """Flush the remaining records and disable them."""
        self._call("cuptiActivityFlushAll", _FORCED)
        self._call("cuptiActivityDisable", _GRAPH_TRACE)

    def read_clock(self) -> int:
        """Return the time in ns on the clock of the records."""
        time = ctypes.c_uint64()
        self._call("cuptiGetTimestamp", ctypes.byref(time))
        return time.value

    @property
    def version(self) -> int:
        """CUPTI's API version."""
        number = ctypes.c_uint32()
        self._call("cuptiGetVersion", ctypes.byref(number))
        return number.value

    def _call(self, function: str, *arguments: object) -> None:
        result = getattr(self._cupti, function)(*arguments)
        if result != 0:
            raise OSError(f"{function} returned {result}")

    def _provide_buffer(self, buffer: object, size: object, maximum: object) -> None:
        memory = ctypes.create_string_buffer(_BUFFER)
        address = ctypes.addressof(memory)
        self._buffers[address] = memory
        buffer[0], size[0], maximum[0] = address, _BUFFER, 0  # type: ignore[index]

    def _read_buffer(
        self, _context: int, _stream: int, buffer: int, _size: int, valid: int
    ) -> None:
        record = ctypes.c_void_p()
        get_next_record = self._cupti.cuptiActivityGetNextRecord
        arguments = ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
        while valid and get_next_record(*arguments) == 0:
            trace = _GraphTrace.from_address(record.value or 0)
            if trace.kind == _GRAPH_TRACE:
                self.work.append((trace.start, trace.end))
        self._buffers.pop(buffer, None)
