"""The worker's process with passes that need no GPU: each writes, slowly, what a real one leaves.

``GRAPHVIZ_DASH_TEST_PASS`` says what a pass does besides: ``fill`` writes until the disk is full,
``crash`` ends with a segmentation fault, ``abort`` as a C++ library does; all in mode graph only,
``fill`` after its clean pass.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from types import ModuleType

from collectors.passes import worker
from collectors.process.requests import PassRequest
from tests.collectors.collection.pass_results import ENVIRONMENT, write_results

_STEP = 0.02


def _run(request: PassRequest) -> None:
    (Path(request.out) / "pid").write_text(str(os.getpid()))
    time.sleep(_STEP)
    write_results(request)
    besides = os.environ.get("GRAPHVIZ_DASH_TEST_PASS") if request.mode.value == "graph" else None
    if besides == "crash":
        ctypes.string_at(0)
    if besides == "abort":
        os.write(sys.stderr.fileno(), b"terminate called\n")
        os.abort()
    if besides == "fill" and request.kind.value != "clean":
        with (Path(request.out) / "large").open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
    time.sleep(_STEP)


def _module(name: str, **contents: object) -> None:
    module = ModuleType(name)
    for key, value in contents.items():
        setattr(module, key, value)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, module)


if __name__ == "__main__":
    import collectors.passes  # noqa: F401

    for kind in ("plan", "clean", "capture", "traced", "memory"):
        _module(f"collectors.passes.{kind}", run=_run)
    _module("collectors.collection.environment", read_environment=lambda: ENVIRONMENT)
    sys.exit(worker.main(sys.argv[1:]))
