"""C++ demangling as in c++filt, with the demangler of the C++ runtime that torch loads."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache, lru_cache
from typing import Any


@cache
def _load_demangler() -> Any | None:
    """Load ``__cxa_demangle`` of libstdc++ or libc++abi. None if neither is available."""
    for library in ("libstdc++.so.6", ctypes.util.find_library("stdc++"), "libc++abi.so.1"):
        if not library:
            continue
        try:
            function = ctypes.CDLL(library).__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
        return function
    return None


@lru_cache(maxsize=4096)
def demangle(name: str) -> str:
    """Demangle ``name``. Returns other names unchanged, and all names without a demangler."""
    function = _load_demangler()
    if function is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    address = function(name.encode(), None, None, ctypes.byref(status))
    if not address:
        return name
    try:
        return ctypes.string_at(address).decode("utf-8", "replace")
    finally:
        # __cxa_demangle allocates with malloc; the caller must free.
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]
        free.restype = None
        free(address)
