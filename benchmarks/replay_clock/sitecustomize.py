"""Stamp each graph replay of a program, with or without a recorder.

On PYTHONPATH of a program, it wraps torch's replay method before a recorder does. Each process
writes its stamps to a file in REPLAY_CLOCK: twice the time of the replay's return in ns, plus one
if a profiler runs.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import sys
import time
from array import array

FLUSH = 256
"""Stamps between two writes: the maximum loss of a killed process."""


class _Clock:
    def __init__(self, folder: str) -> None:
        self._file = os.path.join(folder, f"{os.getpid()}-{time.time_ns()}.stamps")
        self.stamps = array("q")
        atexit.register(self.flush)

    def flush(self) -> None:
        stamps, self.stamps = self.stamps, array("q")
        with open(self._file, "ab") as file:
            file.write(stamps.tobytes())

    def install(self, torch) -> None:
        launch, profiler_enabled = torch._C._CUDAGraph.replay, torch.autograd._profiler_enabled

        def replay(graph) -> None:
            launch(graph)
            self.stamps.append(2 * time.perf_counter_ns() + profiler_enabled())
            if len(self.stamps) >= FLUSH:
                self.flush()

        torch._C._CUDAGraph.replay = replay


class _AfterTorch:
    """Finder that installs the clock after the import of torch."""

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock
        self._asking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self._asking:
            return None
        self._asking = True
        spec = importlib.util.find_spec("torch")
        self._asking = False
        load = spec.loader.exec_module

        def load_and_install(module) -> None:
            load(module)
            self._clock.install(module)

        spec.loader.exec_module = load_and_install
        return spec


if os.environ.get("REPLAY_CLOCK"):
    # After the recorder's finder, so that its hook runs after the clock is installed.
    sys.meta_path.insert(1, _AfterTorch(_Clock(os.environ["REPLAY_CLOCK"])))
