"""Let the processes of a comparison replay graphs one after another, in short blocks.

On PYTHONPATH of a program, it wraps torch's replay method before a recorder does. After some free
replays, a process connects to the socket REPLAY_TURNS and waits for its turn before each block. It
reports the duration and the CPU time of the block, and if a profiler ran in it.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import struct
import sys
import threading
import time

GO = b"g"


class _Turns:
    def __init__(self, address: str, run: int, free: int, lead: int, block: int) -> None:
        self._address, self._run = address, run
        self._free, self._lead, self._length = free, lead, lead + block
        self._replays = self._begin_ns = self._begin_cpu_ns = self._thread = 0
        self._profiler_seen = False
        self._socket: socket.socket | None = None
        self._process = os.getpid()

    def install(self, torch) -> None:
        launch, profiler_enabled = torch._C._CUDAGraph.replay, torch.autograd._profiler_enabled
        self._wait_for_gpu = torch._C._cuda_synchronize

        def replay(graph) -> None:
            launch(graph)
            self.handle_replay(profiler_enabled())

        torch._C._CUDAGraph.replay = replay

    def handle_replay(self, has_profiler: bool) -> None:
        if self._process != os.getpid() or self._thread not in (0, threading.get_ident()):
            return
        self._replays += 1
        if self._replays < self._free:
            return
        if self._replays == self._free:
            self._thread = threading.get_ident()
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(self._address)
            self._wait_for_turn(self._run)
            return
        at = (self._replays - self._free) % self._length
        self._profiler_seen = self._profiler_seen or has_profiler
        if at == self._lead:
            # The first replays of a turn fill the caches again.
            self._wait_for_gpu()
            self._begin_ns, self._begin_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        elif at == 0:
            self._wait_for_gpu()
            cpu_ns = time.thread_time_ns() - self._begin_cpu_ns
            wall_ns = time.perf_counter_ns() - self._begin_ns
            profiler_seen, self._profiler_seen = self._profiler_seen, False
            self._wait_for_turn(wall_ns, cpu_ns, profiler_seen)

    def _wait_for_turn(self, *report: int) -> None:
        assert self._socket is not None
        try:
            self._socket.sendall(struct.pack("3q", *report, *[0] * (3 - len(report))))
            if self._socket.recv(1) == GO:
                return
        except OSError:
            pass
        # The comparison has ended.
        self._thread = -1


class _AfterTorch:
    """Finder that wraps torch after its import."""

    def __init__(self, turns: _Turns) -> None:
        self._turns = turns
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
            self._turns.install(module)

        spec.loader.exec_module = load_and_install
        return spec


if os.environ.get("REPLAY_TURNS"):
    # After the recorder's finder, so that its hook runs after this one.
    _NUMBERS = (int(number) for number in os.environ["REPLAY_NUMBERS"].split(","))
    sys.meta_path.insert(1, _AfterTorch(_Turns(os.environ["REPLAY_TURNS"], *_NUMBERS)))
