"""The run bundle's format: its version, the history of versions, and its limits.

Version history:
    1: manifest.json, clean.json, memory.json, graphs/<id>.json, traces/{capture,replay}.json.gz.
    2: adds fields and files, each of which may be missing; nothing of version 1 has changed.
    3: adds ``processes`` to clean.json, and mode compile-default; nothing of version 2 has changed.
    4: adds loop.json.gz, parallel.json.gz, compilation.json.gz, modes parallel and compile-graph,
       and ``process`` to recording.json; nothing of version 3 has changed.
    5: adds traces/capture-<n>.json.gz, ``captured_in`` to graphs, and ``shapes`` to what
       ``size_method`` says; nothing of version 4 has changed.
    6: adds ``window_open_ns``, ``window_close_ns``, ``window_ended_by``, ``cupti_attached`` and
       ``ended`` to recording.json, and status ``killed``; nothing of version 5 has changed.
"""

from __future__ import annotations

from typing import Final

READABLE: Final = (1, 2, 3, 4, 5, 6)
"""The versions that this tool reads; it writes the last."""

MANIFEST: Final = "manifest.json"

ABOUT: Final = "about.txt"
"""Beside the bundles of an experiment: a line that says what it is."""

MAX_MANIFEST_BYTES: Final = 16 << 20
"""A manifest above this is refused unread: real ones have a few kilobytes."""

MAX_PART_BYTES: Final = 1 << 30
"""A JSON part (graph, clean timings, memory) above this is refused unread."""

MAX_TRACE_BYTES: Final = 8 << 30
"""A compressed trace above this is refused unread, before its hash is computed."""
