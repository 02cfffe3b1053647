"""Version, version history and limits of the run bundle's format.

Version history:
    1: manifest.json, clean.json, memory.json, graphs/<id>.json, traces/{capture,replay}.json.gz.
    2: adds optional fields and files; version 1 is unchanged.
    3: adds ``processes`` to clean.json, and mode compile-default; version 2 is unchanged.
    4: adds loop.json.gz, parallel.json.gz, compilation.json.gz, modes parallel and compile-graph,
       and ``process`` to recording.json; version 3 is unchanged.
    5: adds traces/capture-<n>.json.gz, ``captured_in`` to graphs, and value ``shapes`` to
       ``size_method``; version 4 is unchanged.
    6: allows graphs/<id>.json.gz; adds ``window_open_ns``, ``window_close_ns``,
       ``window_ended_by``, ``cupti_attached`` and ``ended`` to recording.json, and status
       ``killed``; version 5 is unchanged.
    7: adds ledger.json.gz, replay-check.json and ceilings.json, and ``live`` to memory.json;
       version 6 is unchanged.
    8: renames fields, as listed below, and adds source-code.json.gz; version 7 is unchanged.
"""

from __future__ import annotations

from typing import Final

SUPPORTED_VERSIONS: Final = (1, 2, 3, 4, 5, 6, 7, 8)
"""Supported versions. The last one is written."""

MANIFEST_FILE: Final = "manifest.json"

DESCRIPTION_FILE: Final = "about.txt"
"""File next to the bundles of an experiment with a one-line description."""

MAX_MANIFEST_BYTES: Final = 16 << 20
"""Larger manifests are rejected unread. Typical size: a few kilobytes."""

MAX_PART_BYTES: Final = 1 << 30
"""Larger JSON parts (graph, clean timings, memory) are rejected unread."""

MAX_TRACE_BYTES: Final = 8 << 30
"""Larger compressed traces are rejected before hashing."""
