"""Measure the recorder's cost in a program: blocks of replays with and without its hooks alternate.

    python -m collectors -o OUT --skip 1000000000 -- \
        python benchmarks/recorder_hooks.py RESULT.json --unit 5 train.py [ARGUMENTS...]

Needs a GPU. Both kinds of blocks run in one process, in pairs of random order, so that clocks and
load affect them equally. Without hooks means: torch's replay method, module call, optimizer and
compiled calls, the engine's own functions, no callback of the garbage collector and no work of the
writing thread. The first phase precedes the traced window. Then the window opens, and the second
phase follows it. The program ends after that.

RESULT.json has the nanoseconds of each block; the printed ratios have 95% intervals over pairs.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import importlib
import json
import os
import random
import runpy
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, Final, NamedTuple, TextIO

import torch
from msgspec.structs import replace
from torch.optim.optimizer import register_optimizer_step_post_hook

import collectors

_PRELUDE, _WINDOW, _SEQUEL, _END = "before", "window", "after", "end"
_ENGINES: Final = ("vllm.v1", "sglang.srt", "transformers.generation")
_RECORDER: Final = Path(collectors.__file__).parent
_FOLLOWING_UNITS: Final = 10
"""Units after the window before the second phase."""
_WAIT_UNITS: Final = 4_000
"""Units after which a window that did not open is given up."""
_FIRST_PAIRS: Final = 2
"""Pairs that are not used."""
_OUTLIER: Final = 2
"""A pair is not used if a block lasts longer than this multiple of the median."""
_RESAMPLES: Final = 1_000


class Block(NamedTuple):
    """Durations of a block in ns: wall time, and CPU time of the replaying thread."""

    phase: str
    has_hooks: bool
    wall_ns: int
    cpu_ns: int


@dataclass
class Result:
    """Blocks of one process."""

    unit: int
    """Replays of the smallest repeating piece of work."""
    lead: int
    """Units at the start of a block that are not timed."""
    length: int
    """Timed units of a block."""
    blocks: list[Block] = field(default_factory=list)
    flush_ns: list[tuple[int, int]] = field(default_factory=list)
    """Wall and CPU time of each flush of the writing thread."""


class Hooks:
    """The recorder's hooks in torch and in engines."""

    def __init__(self, recorder: Any, result: Result) -> None:
        self._recorder = recorder
        self._result = result
        self._flush: Callable[[], None] = recorder._flusher._write
        self._are_set = True
        self._restores: list[Callable[[], None]] = []
        self.update_replay()

    def update_replay(self) -> None:
        """Take the current replay method as the recorder's."""
        self._replay = torch.cuda.CUDAGraph.replay

    def set(self, has_hooks: bool) -> None:
        """Set or remove the hooks. Writes the same attributes in both cases where possible, because
        a write to a class empties Python's caches."""
        graph_class: Any = torch.cuda.CUDAGraph
        graph_class.replay = self._replay if has_hooks else _replay_without_hooks
        self._recorder._flusher._write = self._time_flush if has_hooks else _skip_flush
        if has_hooks == self._are_set:
            return
        self._are_set = has_hooks
        if has_hooks:
            while self._restores:
                self._restores.pop()()
        else:
            self._remove_module_calls()
            self._remove_optimizer_hook()
            self._remove_compiled_calls()
            self._remove_collector_callbacks()
            self._remove_engine_hooks()

    def _time_flush(self) -> None:
        wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        self._flush()
        self._result.flush_ns.append(
            (time.perf_counter_ns() - wall_ns, time.thread_time_ns() - cpu_ns)
        )

    def _remove_module_calls(self) -> None:
        forwards = self._recorder._forwards
        if torch.nn.Module.__call__ is forwards._call_module:
            self._replace(torch.nn.Module, "__call__", forwards._original)
        for module_class in tuple(forwards._narrowed):
            call = vars(module_class).get("__call__")
            if call is not None:
                del module_class.__call__
                self._restores.append(_bind_setattr(module_class, "__call__", call))

    def _remove_optimizer_hook(self) -> None:
        optimizers = self._recorder._optimizers
        if optimizers._handle is None:
            return
        optimizers._handle.remove()

        def restore() -> None:
            optimizers._handle = register_optimizer_step_post_hook(optimizers._handle_step)

        self._restores.append(restore)

    def _remove_compiled_calls(self) -> None:
        calls = self._recorder._compiled_calls
        if calls._original is not None and not calls._stopped:
            self._replace(importlib.import_module(calls._MODULE), calls._NAME, calls._original)

    def _remove_collector_callbacks(self) -> None:
        callbacks = list(gc.callbacks)
        gc.callbacks[:] = [callback for callback in callbacks if not _is_of_recorder(callback)]
        self._restores.append(lambda: gc.callbacks.__setitem__(slice(None), callbacks))

    def _remove_engine_hooks(self) -> None:
        hooks = [
            (holder, name, value)
            for holder in _list_engine_holders()
            for name, value in tuple(vars(holder).items())
            if _is_of_recorder(value)
        ]
        for restore in reversed(self._recorder.loop._engines._restore):
            restore()
        self._restores += [_bind_setattr(*hook) for hook in hooks]

    def _replace(self, holder: Any, name: str, value: object) -> None:
        self._restores.append(_bind_setattr(holder, name, getattr(holder, name)))
        setattr(holder, name, value)


class Alternation:
    """Alternates blocks with and without hooks at the replays of one thread."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.result = Result(options.unit, options.lead, options.length)
        self._options = options
        self._phase: str | None = None
        self._replays = self._position = self._window_from = self._thread = 0
        self._until = 0.0
        self._marks = (0, 0)
        self._states: list[bool] = []
        self._has_hooks = True
        self._shuffle = random.Random(0).shuffle
        self._hooks: Hooks | None = None
        self._recorder: Any = None
        self._lock: TextIO | None = None

    def install(self) -> None:
        """Count the replays below the recorder."""
        launch, count = torch._C._CUDAGraph.replay, self._count_replay

        def replay(graph: Any) -> None:
            launch(graph)
            count()

        base: Any = torch._C._CUDAGraph
        base.replay = replay
        method: Any = torch.cuda.CUDAGraph.replay
        for name, cell in zip(method.__code__.co_freevars, method.__closure__ or (), strict=True):
            # A method of torch written in Python finds the replacement itself.
            if name == "launch" and not isinstance(cell.cell_contents, FunctionType):
                cell.cell_contents = replay

    def _count_replay(self) -> None:
        self._thread = self._thread or threading.get_ident()
        if self._phase == _END or self._thread != threading.get_ident():
            return
        self._replays += 1
        if self._phase is None:
            if self._replays >= self._options.free and self._replays % self.result.unit == 0:
                self._begin()
        elif self._phase == _WINDOW:
            self._wait_for_window()
        else:
            self._time_block()

    def _begin(self) -> None:
        if self._options.lock is not None:
            # Several programs start together and measure one after another.
            self._lock = self._options.lock.open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        watcher = importlib.import_module("collectors.program.session")._active
        self._recorder = watcher._recorder
        self._hooks = Hooks(self._recorder, self.result)
        self._begin_phase(_PRELUDE)

    def _begin_phase(self, phase: str) -> None:
        self._phase = phase
        self._until = time.perf_counter() + self._options.seconds
        self._begin_block()

    def _begin_block(self) -> None:
        assert self._hooks is not None
        if not self._states:
            self._states = [True, False]
            self._shuffle(self._states)
        self._has_hooks = self._states.pop()
        self._hooks.set(self._has_hooks)
        self._position = 0
        if self.result.lead == 0:
            self._marks = _read_clocks()

    def _time_block(self) -> None:
        self._position += 1
        lead = self.result.lead * self.result.unit
        if self._position == lead:
            self._marks = _read_clocks()
        elif self._position == lead + self.result.length * self.result.unit:
            wall_ns, cpu_ns = _read_clocks()
            assert self._phase is not None
            self.result.blocks.append(
                Block(
                    self._phase,
                    self._has_hooks,
                    wall_ns - self._marks[0],
                    cpu_ns - self._marks[1],
                )
            )
            if time.perf_counter() > self._until and not self._states:
                self._end_phase()
            else:
                self._begin_block()

    def _end_phase(self) -> None:
        assert self._hooks is not None
        self._hooks.set(True)
        if self._phase == _SEQUEL:
            self.finish()
            return
        self._phase, self._window_from = _WINDOW, self._replays
        recorder = self._recorder
        skip = max(0, recorder._series.since_capture - 1)
        recorder._settings = replace(recorder._settings, skip=skip)
        # Counted with the earlier setting.
        recorder._series.plain_steps = 0

    def _wait_for_window(self) -> None:
        assert self._hooks is not None
        units = (self._replays - self._window_from) / self.result.unit
        is_due = self._recorder._window.done and units >= _FOLLOWING_UNITS
        if (is_due or units >= _WAIT_UNITS) and units.is_integer():
            self._hooks.update_replay()
            self._begin_phase(_SEQUEL)

    def finish(self) -> None:
        """Write and print the result, and leave the process."""
        self._phase = _END
        self._options.result.write_text(json.dumps(asdict(self.result)))
        for line in describe(self.result):
            print(line, flush=True)
        os._exit(0)


def describe(result: Result) -> list[str]:
    """Describe the cost in each phase."""
    lines = []
    for phase in (_PRELUDE, _SEQUEL):
        blocks = [block for block in result.blocks if block.phase == phase]
        pairs = [
            (first, second) if first.has_hooks else (second, first)
            for first, second in zip(blocks[::2], blocks[1::2], strict=False)
        ][_FIRST_PAIRS:]
        for name, read in (("wall", _read_wall), ("CPU", _read_cpu)):
            if pairs:
                lines.append(f"{phase} the window, {name}: {_compare(pairs, read)}")
    if result.flush_ns:
        mean = statistics.mean(cpu_ns for _, cpu_ns in result.flush_ns)
        lines.append(f"{len(result.flush_ns)} flushes, {mean / 1e3:.0f} µs of CPU time each")
    return lines


def _compare(pairs: Sequence[tuple[Block, Block]], read: Callable[[Block], int]) -> str:
    times = [(read(first), read(second)) for first, second in pairs]
    limit = _OUTLIER * statistics.median(value for pair in times for value in pair)
    valid = [pair for pair in times if max(pair) < limit]
    draw = random.Random(0)
    samples = sorted(_compute_percent(draw.choices(valid, k=len(valid))) for _ in range(_RESAMPLES))
    low, high = samples[_RESAMPLES // 40], samples[-_RESAMPLES // 40]
    return (
        f"{_compute_percent(valid):+.2f}% ({low:+.2f} to {high:+.2f}), {len(valid)} of "
        f"{len(times)} pairs, blocks of {limit / _OUTLIER / 1e6:.2f} ms"
    )


def _compute_percent(pairs: Sequence[tuple[int, int]]) -> float:
    """Return the difference of the sums in percent."""
    return 100 * (sum(first for first, _ in pairs) / sum(second for _, second in pairs) - 1)


def _read_wall(block: Block) -> int:
    return block.wall_ns


def _read_cpu(block: Block) -> int:
    return block.cpu_ns


def _read_clocks() -> tuple[int, int]:
    torch.cuda.synchronize()
    return time.perf_counter_ns(), time.thread_time_ns()


def _replay_without_hooks(graph: Any) -> None:
    """Replay as torch's own method does."""
    super(torch.cuda.CUDAGraph, graph).replay()


def _skip_flush() -> None:
    """Replace the writing thread's work."""


def _is_of_recorder(value: object) -> bool:
    # Hooks have the module and the name of the function that they replace.
    code = value.__code__ if isinstance(value, FunctionType) else None
    return code is not None and Path(code.co_filename).is_relative_to(_RECORDER)


def _list_engine_holders() -> list[Any]:
    """List the modules and classes of engines."""
    holders: list[Any] = []
    for name, module in tuple(sys.modules.items()):
        if module is not None and name.startswith(_ENGINES):
            holders.append(module)
            holders += [
                value
                for value in tuple(vars(module).values())
                # Not isinstance, which makes lazy modules import.
                if issubclass(type(value), type) and value.__module__ == name
            ]
    return holders


def _bind_setattr(holder: Any, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(holder, name, value)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("result", type=Path, help="JSON file to write.")
    parser.add_argument("--unit", type=int, default=1, help="Replays of a repeating piece of work.")
    parser.add_argument("--lead", type=int, default=1, help="Units of a block before the timed.")
    parser.add_argument("--length", type=int, default=4, help="Timed units of a block.")
    parser.add_argument("--free", type=int, default=100, help="Replays before the first block.")
    parser.add_argument("--seconds", type=float, default=5.0, help="Duration of each phase.")
    parser.add_argument("--lock", type=Path, help="File to lock while this process measures.")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    sys.argv = [str(options.script), *options.arguments]
    sys.path.insert(0, str(options.script.resolve().parent))
    alternation = Alternation(options)
    alternation.install()
    runpy.run_path(str(options.script), run_name="__main__")
    alternation.finish()


if __name__ == "__main__":
    main()
