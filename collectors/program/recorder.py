"""Record one process: count, read and time its use of graphs.

Results go into a folder continuously, so that a killed program leaves them.
:class:`collectors.program.process_watcher.ProcessWatcher` connects recorder and program.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from time import perf_counter_ns
from types import FrameType
from typing import Any, Final

import torch
from msgspec.structs import replace

from collectors.compiled.account import CompileRecorder
from collectors.cupti.code_files import find_unread_kernels
from collectors.driver.topology import DriverError
from collectors.guard import Guard
from collectors.ledger.samples import read_numbers
from collectors.passes.annotate import find_caller_lines
from collectors.program.files import (
    CAPTURE_TRACE_FILE,
    COMPILATION_FILE,
    GRAPHS_FOLDER,
    IDENTITY_FILE,
    PROBLEMS_FILE,
    STATE_FILE,
    TRACE_FILE,
    Problems,
    ProcessFolder,
    Settings,
)
from collectors.program.flusher import Flusher
from collectors.program.hooks import CompiledCalls, OptimizerSteps, OutermostCalls
from collectors.program.loop.events import EventKind
from collectors.program.loop.recorder import LoopRecorder
from collectors.program.process_facts import (
    add_origin,
    read_identity,
    write_code_files,
    write_environment,
    write_failure,
    write_memory,
)
from collectors.program.profiler_watch import ProfilerWatch
from collectors.program.progress import FLUSH_S, ProgressFiles
from collectors.program.sleep import SleepingGraphs
from collectors.program.startup import StartupLedger
from collectors.program.steps import PATIENCE, StepClock, StepSeries
from collectors.program.watch import (
    COUNTER,
    ReplayCounter,
    ReplayTick,
    attach,
    read_open_capture,
)
from collectors.program.window import CaptureSession, TracedWindow, count_replay_events
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.ledger import SpanKind
from graphviz_dash.model.recording import BoundaryKind, RecordedGraph, Recording, WindowEnd

KEPT: Final = 1_000
"""Maximum number of step times. Steps are no longer detected after that unless a window follows."""

_STRANGERS: Final = 64
"""Calls of modules outside captures after which modules are no longer watched, because each
costs."""

_CALLS_BEFORE_REPLAY: Final = 2_000
"""Calls of compiled functions that are no steps if a captured graph was never replayed. A prefill
of a language model makes up to 200."""

_CALLS_BEFORE_CAPTURE: Final = 500
"""Calls of compiled methods that are no steps before the first capture: an engine warms up."""

_LABEL: Final = BoundaryKind.LABEL
_ENGINE: Final = BoundaryKind.ENGINE
_SERVED: Final = (_LABEL, _ENGINE)
"""Kinds of steps with occasional captures: all steps without a capture count towards the start of
the window, not only those after the last capture."""

_SETTLED_STEPS: Final = 64
"""Steps without a change after which graphs that end none are no longer handled. Each later attempt
waits twice as long."""

_STATE_EVERY: Final = 125
"""Flushes of events and counts per write of the state, which is more expensive: every 10 s."""
_STATE_GAP_S: Final = 0.25
"""Minimum time between two writes of the state after captures."""
_CALLERS: Final = 8
_STEP: Final = int(EventKind.STEP)


@dataclass(eq=False)
class _Capture:
    counter: ReplayCounter
    captured_at: tuple[str, ...]
    """``file:line`` of the calls that led to it, innermost first."""
    step: int
    """Number of steps before it."""
    thread: int
    name: str | None = None
    """Name given by an engine, or None."""
    began: int = 0
    """Start, in ns of the performance counter."""
    capture_ns: int = 0
    """Duration without reading the graph."""
    reading_ns: int = 0
    nodes: int | None = None
    """Number of nodes, or None if unread."""
    problem: str | None = None
    """Reason why it failed or could not be read, or None."""
    profiled: bool = False
    """A profiler of the recorder ran."""
    optimizer: tuple[int, str] | None = None
    """Identity and name of the optimizer that stepped in it, or None."""
    after: set[str] = field(default_factory=set)
    """Graphs from the same place of capture that were replayed right before it in its thread."""
    predecessor: ReplayCounter | None = None
    """Graph replayed right before its last handled replay, or None if unknown."""
    steady_from: int = 0
    """Number of the first replay after this predecessor."""
    halfway: int = 0
    """Replays in the first half of the steps before the traced window."""
    before_window: int = 0
    window_replays: int = 0
    graphs: tuple[CapturedGraph, ...] = field(default=())
    """Graphs that were read but not written yet."""
    eviction: bool = False
    """The program released the graph before a later capture."""
    from_compiler: bool = False
    """torch.compile captured it."""


class ProgramRecorder:
    """Records this process into ``folder``, from :meth:`start` to :meth:`finish`.

    ``earlier`` counts replays of graphs with unknown captures. ``guard`` receives errors of hooks
    in torch and of the writing thread. ``ledger`` may have started before. Methods raise errors to
    their callers unless they say otherwise.
    """

    def __init__(
        self,
        settings: Settings,
        folder: ProcessFolder,
        earlier: ReplayCounter,
        guard: Guard,
        ledger: StartupLedger,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._guard = guard
        self._clock = StepClock(self._handle_step_end, self._handle_step_start)
        self._ledger = ledger
        ledger.connect(folder, self._count_replays)
        self.loop = LoopRecorder(folder, guard, self._handle_scope_end)
        self._profilers = ProfilerWatch(self._handle_profiler_start, guard)
        thread_ends = partial(self.end_traces, end=WindowEnd.THREAD)
        self._window = TracedWindow(
            settings,
            folder.path / TRACE_FILE,
            guard,
            self.loop.record_marked_step,
            thread_ends,
            self._profilers,
        )
        self._traces = self._window.traces
        self._attributing = CaptureSession(
            settings.attribute,
            folder.path / CAPTURE_TRACE_FILE,
            self._traces,
            thread_ends,
            self._profilers,
        )
        self._progress = ProgressFiles(folder)
        self._series = StepSeries(self._clock)
        self._ended = self._gave_up = False
        self._flushes = 0
        self._earlier = earlier
        self._captures: dict[str, _Capture] = {}
        self._counters: list[ReplayCounter] = []
        self._open: list[_Capture] = []
        self._halfway: dict[str, int] = {}
        self._profiler_seen = False
        self._compiled = CompileRecorder(guard)
        self._compiled_told = 0
        self._step_captured = False
        self._strangers = 0
        self._calls_before_replay = 0
        self._previous: dict[int, ReplayCounter] = {}
        self._sleeping = SleepingGraphs()
        self._settling_steps = self._settles_at = _SETTLED_STEPS
        self._compiled_calls = CompiledCalls(self._handle_compiled_call, guard)
        self._forwards = OutermostCalls(
            self._handle_call, guard, self.loop.record_module_return, self._compiled_calls.start
        )
        self._optimizers = OptimizerSteps(self._handle_optimizer_step, guard)
        self._stopped = False
        self._written: Recording | None = None
        self._state_written = 0.0
        self._is_state_due = False
        self._problems_written = (0, False)
        self._has_programmatic_edges = False
        self._lock = threading.Lock()
        self._numbering = threading.Lock()
        self._flusher = Flusher(self._flush, FLUSH_S)

    def start(self, *, forked: bool = False) -> None:
        """Start to count steps. ``forked``: in a child of a recorded process."""
        with self._guard:
            self._ledger.start()
        self._identity = read_identity(os.environ, forked)
        self._folder.put(IDENTITY_FILE, self._identity)
        if self._settings.window or self._settings.attribute:
            self._window.prepare()
        self._profilers.start()
        self._compiled.start()
        self._optimizers.start()
        self._forwards.start()
        self.loop.start()

    def finish(self) -> None:
        """Close everything, restore torch, and write the results."""
        for end in (
            self._flusher.stop,
            partial(self.end_traces, detach=False),
            partial(self._traces.write, after_end=True),
            self._stop_ticking,
            self._profilers.stop,
            partial(self._compiled.read_trees, self._find_graph_id),
            self._compiled.stop,
            self._compiled_calls.stop,
            self._forwards.stop,
            self.loop.stop,
            self._ledger.finish,
            partial(write_environment, self._folder),
            partial(write_memory, self._folder),
            self._write_code_files,
            self.loop.rest.count,
            self.loop.finish,
            self._write_end,
        ):
            # A failure must not prevent the other calls.
            with self._guard:
                end()
        self._write_problems()

    def disable(self) -> None:
        """Stop recording in a forked child, without changes to the parent's files."""
        self._stopped = self._series.is_special = True
        self.loop.stop_ticking()
        self._compiled.stop()
        self._profilers.disable()
        self._traces.discard()
        self._sleeping.end()
        for capture in self._captures.values():
            capture.counter.awake = False
        self.loop.rest.reset()
        self._stop_noting()

    def _stop_noting(self) -> None:
        for capture in tuple(self._captures.values()):
            capture.counter.note = None

    def stop_early(self) -> None:
        """Stop recording after too many errors. :meth:`finish` writes the results so far."""
        for stop in (
            self.end_traces,
            self._stop_ticking,
            self._compiled.stop,
            self._compiled_calls.stop,
            self._forwards.stop,
            self.loop.stop,
            self._ledger.stop,
            self._stop_noting,
        ):
            with self._guard:
                stop()
        self._gave_up = True

    def restore_torch(self) -> None:
        """Restore torch in a forked child to its state before the parent's recording."""
        self._profilers.stop()
        self._optimizers.stop()
        self._compiled_calls.stop()
        self._forwards.stop()
        self.loop.stop()

    def write_failure(self, error: BaseException | None) -> None:
        """Keep the error that ended the program, if any. SystemExit is not an error."""
        if error is not None and not isinstance(error, SystemExit):
            write_failure(self._folder, error)

    def record_step(self) -> None:
        """Record the end of a step, reported by the program."""
        self._handle_tick(BoundaryKind.EXPLICIT, "step", "collectors.step()")

    # Calls from the watcher of captures and replays.

    def begin_capture(self, graph: object, pool: Any) -> ReplayCounter:
        """Register a capture with its source lines and step."""
        begin = perf_counter_ns()
        self.loop.rest.stop()
        self._end_sleep()
        caller = sys._getframe(1)
        lines = find_caller_lines(caller, _CALLERS)
        facts, name = self.loop.read_graph_facts(lines, caller), self.loop.find_graph_name(caller)
        # Threads may capture concurrently, and numbers index several lists. The lock covers no code
        # of the program and no writes.
        with self._numbering:
            number = len(self._captures)
            counter = ReplayCounter(f"graph-{number}", graph, number, self.loop.log.note)
            capture = _Capture(counter, lines, self._clock.steps, get_ident(), name)
            capture.from_compiler = _is_compiled_capture(caller)
            self.loop.start_capture(facts)
            self._captures[counter.id] = capture
            self._counters.append(counter)
        attach(graph, counter)
        if facts.engine is None and name is None and not capture.from_compiler:
            self._forwards.begin_capture()
        for other in tuple(self._captures.values()):
            other.eviction = other.eviction or not other.counter.alive
        if number == 0:
            # multiprocessing completes its setup before this point.
            self._folder.put(IDENTITY_FILE, add_origin(self._identity))
        self.loop.record_pool(number, pool)
        self._window.begin_capture(counter.id)
        if not self._window.profiling:
            self._attributing.begin_capture(counter.id, capture.from_compiler)
        capture.profiled = self._window.profiling or self._attributing.profiling
        if capture.profiled:
            self.loop.record_profiler()
        with self._guard:
            self._ledger.begin_capture(counter.id, begin)
        self._open.append(capture)
        self._series.is_special, self._series.plain_steps = True, 0
        capture.began = perf_counter_ns()
        return counter

    def end_capture(self, counter: ReplayCounter) -> None:
        """Read the graph while the driver still has it for the capture."""
        capture = self._captures[counter.id]
        if capture not in self._open:
            return
        begin = perf_counter_ns()
        try:
            capture.graphs = read_open_capture(counter.id)
        except DriverError as error:
            capture.problem = f"not read: {error}"
        else:
            capture.nodes = len(capture.graphs[0].nodes)
        ledger = self._ledger.recorder
        with self._guard:
            numbers = ledger.end_body(counter.id)
            if numbers is not None:
                self.loop.prepare_capture_end(counter.number, numbers.outside_bytes)
        end = perf_counter_ns()
        ledger.add_span(SpanKind.RECORDER, "reading the graph", begin, end)
        capture.reading_ns = end - begin

    def record_capture(self, counter: ReplayCounter, graph: object, duration_ns: int) -> None:
        """Write the graph of a finished capture and restart the count of steps."""
        capture = self._close_capture(counter)
        now = perf_counter_ns()
        with self._guard:
            numbers = read_numbers()
            pools = self.loop.record_capture(
                counter.number, graph, capture.began, duration_ns, numbers.outside_bytes
            )
            self._ledger.recorder.add_span(SpanKind.DRIVER, counter.id, now - duration_ns, now)
            self._ledger.recorder.end_capture(counter.id, *pools, now, numbers)
        begin = perf_counter_ns()
        self._write_now_and_then()
        for read in capture.graphs:
            # The cudagraph trees capture an empty graph once, to create their memory pool.
            if capture.nodes:
                is_root = read.parent is None
                named = replace(read, name=capture.name) if is_root else read
                self._folder.put(f"{GRAPHS_FOLDER}/{read.id}.json", named)
        if not self._has_programmatic_edges and find_unread_kernels(capture.graphs):
            # Again at the end, unless the program is killed.
            self._has_programmatic_edges = True
            write_code_files(self._folder)
        capture.graphs = ()
        if capture.optimizer is not None:
            identity, name = capture.optimizer
            self._clock.rename(identity, _describe_holder(counter.id, name))
        self._write_state_soon()
        now = perf_counter_ns()
        self._ledger.recorder.add_span(SpanKind.RECORDER, "writing the graph", begin, now)

    def record_failure(self, counter: ReplayCounter, error: BaseException) -> None:
        """Record a failed capture. The program handles the error."""
        capture = self._close_capture(counter)
        first = str(error).strip().partition("\n")[0]
        capture.graphs, capture.nodes = (), None
        capture.problem = f"{type(error).__name__}: {first}"
        counter.awake = False
        with self._guard:
            pools = self.loop.record_capture_failure(counter.number)
            self._ledger.recorder.fail_capture(counter.id, *pools)
        self._write_state()

    def record_replay(self, counter: ReplayCounter) -> None:
        """Handle a replay that may end a step. Raises nothing."""
        # Most replays delay a step, and are handled like the last one of their graph.
        tick = counter.tick
        if tick is not None and not self._series.is_special:
            thread, previous, follows = get_ident(), self._previous, counter.follows
            if follows is None or follows is previous.get(thread):
                previous[thread] = counter
                clock, (kind, candidate, _) = self._clock, tick
                if kind is not clock.boundary_kind or candidate != clock.anchor:
                    # Only further ticks in the same step can make it the anchor.
                    if kind is clock.boundary_kind and counter.step != clock.steps:
                        counter.step = clock.steps
                        return
                    if clock.count_other(kind, candidate):
                        return
                elif thread == clock.thread and (now := self._series.end_plain_step()):
                    clock.steps += 1
                    self.loop.log.note_step((_STEP, 0, thread, now, now))
                    return
                with self._guard:
                    clock.handle_tick(*tick)
                return
        with self._guard:
            self._record_special_replay(counter)

    def _record_special_replay(self, counter: ReplayCounter) -> None:
        self.loop.rest.stop()
        self._end_sleep()
        capture = self._captures.get(counter.id)
        if self._profilers.has_sessions:
            self._profilers.discard_left()
            return
        if self._window.profiling and capture is not None:
            self._check_limit(capture)
        counter.tick = counter.follows = None
        self._update_special()
        if self._stopped or capture is None:
            counter.awake = False
        elif capture.optimizer is not None:
            identity, name = capture.optimizer
            self._handle_replay_tick(
                counter, (BoundaryKind.OPTIMIZER, identity, _describe_holder(counter.id, name))
            )
        elif self._clock.is_relevant(BoundaryKind.REPLAYS):
            self._handle_replay_tick(counter, self._find_replay_tick(capture))
        elif not self._window.profiling:
            counter.awake = False

    def _update_special(self) -> None:
        """Update whether replays need more than a tick. Call after each change."""
        self._series.is_special = (
            self._stopped
            or bool(self._open)
            or self._window.profiling
            or self._profilers.has_sessions
        )

    def _handle_replay_tick(self, counter: ReplayCounter, tick: ReplayTick) -> None:
        # Before the tick, which may start another series of steps.
        if self._flusher.started:
            counter.tick = tick
        # The clock counts this tick, so that the next one is not the first of its step.
        counter.step = self._clock.steps
        self._handle_tick(*tick)

    def record_instantiation(self, counter: ReplayCounter, start_ns: int, duration_ns: int) -> None:
        """Record the instantiation of a graph that the program keeps."""
        self.loop.record_instantiation(counter.number, duration_ns)
        self._ledger.recorder.record_instantiation(counter.id, start_ns, start_ns + duration_ns)

    def record_first_launch(self, counter: ReplayCounter, start_ns: int, end: int) -> None:
        """Record the first launch of a graph."""
        self._ledger.recorder.record_first_launch(counter.id, start_ns, end)

    def _count_replays(self) -> int:
        return sum(counter.replays for counter in self._counters)

    def _check_limit(self, capture: _Capture | None) -> None:
        """Count a replay, and close the window during a step with too many events."""
        if self._open:
            return
        if capture is None:
            self._window.check_limit()
        else:
            self._window.count_replay(capture.nodes)
        if self._window.done and not self._stopped:
            self._handle_window_end()

    def _find_replay_tick(self, capture: _Capture) -> ReplayTick:
        """Return the step candidate of a replay and its description.

        Graphs of one place in changing order, such as those of a server, form one candidate.
        Otherwise each graph is a candidate.
        """
        thread = get_ident()
        previous = self._previous.get(thread)
        before = None if previous is None else self._captures[previous.id]
        if before is not None and before.captured_at[:1] == capture.captured_at[:1]:
            capture.after.add(before.counter.id)
        counter = self._previous[thread] = capture.counter
        if len(capture.after) > 1 and capture.captured_at:
            place = capture.captured_at[0]
            return BoundaryKind.REPLAYS, place, f"replay of any graph captured at {place}"
        # The first replay of a thread follows none.
        counter.follows = previous or self._earlier
        if capture.predecessor is not counter.follows:
            capture.predecessor, capture.steady_from = counter.follows, counter.replays
        return BoundaryKind.REPLAYS, counter.id, f"replay of {counter.id}"

    def _let_graphs_sleep(self) -> None:
        """Stop handling the replays of graphs that end no steps, after enough steps without a
        change."""
        self._settles_at += self._settling_steps
        self._settling_steps *= 2
        captures, anchor = tuple(self._captures.values()), self._clock.anchor
        ticking = [
            (capture, capture.counter.tick[1])
            for capture in captures
            if capture.counter.tick is not None
        ]
        # Graphs of one candidate would have to be counted together.
        sizes = Counter(candidate for _, candidate in ticking)
        others = [
            capture
            for capture, candidate in ticking
            if candidate != anchor and sizes[candidate] == 1
        ]
        sleeping = [
            capture.counter
            for capture in others
            if capture.counter.replays - capture.steady_from >= PATIENCE
        ]
        if self._sleeping.is_active or (others and not sleeping):
            return
        for capture, candidate in ticking:
            if candidate == anchor:
                # Its predecessor may sleep.
                capture.counter.follows = None
                capture.counter.end_plain_step = self._series.end_anchor_step
        self._sleeping.begin(sleeping, self._clock.steps)
        for capture in others:
            # A graph that does not sleep wakes all others at its next replay.
            capture.counter.tick = None

    def _end_sleep(self, *, is_ticking: bool = False) -> None:
        """Handle the replays of all graphs again, if some sleep.

        ``is_ticking``: during a tick, after which another graph is the previous one.
        """
        if not self._sleeping.is_active:
            return
        self._sleeping.handle_next_replays()
        self._sleeping.end()
        for capture in tuple(self._captures.values()):
            capture.counter.tick = capture.counter.end_plain_step = None
        # Last: sleeping graphs did not update it.
        self._previous.clear()
        number = None if is_ticking else self.loop.log.find_last_replay(get_ident())
        if number is not None:
            self._previous[get_ident()] = self._counters[number]
        self._series.plain_steps = 0
        self._settles_at = self._series.since_capture + self._settling_steps

    # Ends of steps.

    def _handle_optimizer_step(self, optimizer: Any) -> None:
        name = f"{type(optimizer).__name__}.step"
        self._ledger.recorder.holders.add(optimizer)
        if self._open:
            self._open[-1].optimizer = (id(optimizer), name)
            return
        self._handle_tick(BoundaryKind.OPTIMIZER, id(optimizer), f"{name} returns")

    def _handle_call(self, module: Any, inputs: tuple[Any, ...]) -> bool:
        """Handle the call of an outermost module. True if it may be a fallback to report."""
        self._ledger.recorder.holders.add_inputs(inputs)
        if self._window.profiling:
            self._check_limit(None)
        thread = get_ident()
        here = [capture for capture in self._open if capture.thread == thread]
        capture = here[-1].counter.number if here else None
        noted = self.loop.record_module_call(module, inputs, capture)
        if noted:
            self.loop.rest.stop()
        if self._clock.is_relevant(BoundaryKind.FORWARDS):
            name = f"forward of {type(module).__name__}"
            self._handle_tick(BoundaryKind.FORWARDS, id(module), name)
        elif capture is None and not noted:
            self._strangers += 1
            if self._strangers > _STRANGERS or not self._captures:
                self._forwards.stop()
        return noted

    def _handle_compiled_call(self, identity: int, name: str, is_method: bool) -> None:
        """Handle the call of a compiled function: a step, unless graphs are replayed."""
        if self._window.profiling:
            self._check_limit(None)
        if self._clock.is_relevant(BoundaryKind.FORWARDS):
            if not self._is_piece(is_method):
                boundary = f"call of the {name}"
                self._handle_tick(BoundaryKind.FORWARDS, identity, boundary)
        else:
            self._compiled_calls.stop()

    def _is_piece(self, is_method: bool) -> bool:
        """Return whether a call of a compiled function is probably a piece of a step that replays
        a graph later.

        An engine warms up and captures first, and its prefills call compiled pieces before the
        first replay. Layers share compiled methods of their class.
        """
        captures = [
            capture for capture in tuple(self._captures.values()) if not capture.from_compiler
        ]
        if captures:
            counters = [capture.counter for capture in captures]
            is_waiting = any(counter.alive and not counter.replays for counter in counters)
            limit = _CALLS_BEFORE_REPLAY if is_waiting else 0
        else:
            limit = _CALLS_BEFORE_CAPTURE if is_method else 0
        if self._calls_before_replay >= limit:
            return False
        self._calls_before_replay += 1
        return True

    def _handle_scope_end(self, engine: str | None) -> None:
        kind = _LABEL if engine is None else _ENGINE
        clock, thread = self._clock, get_ident()
        # The event of the scope is also that of the step.
        if kind is clock.boundary_kind and thread == clock.anchor and self._series.end_plain_step():
            clock.steps += 1
        elif engine is None:
            self._handle_tick(kind, thread, "the block of a collectors.label ends")
        else:
            self._handle_tick(kind, thread, f"a step of {engine} ends")

    def _handle_tick(self, kind: BoundaryKind, candidate: object, boundary: str) -> None:
        # Warmup steps in or during a capture do not count, and waiting is impossible then.
        if not self._open and not self._stopped:
            self._clock.handle_tick(kind, candidate, boundary)
            self._write_now_and_then()

    def _write_now_and_then(self) -> None:
        """Start the writing thread, but not before CUDA, which has its own threads."""
        if not self._flusher.started and torch.cuda.is_initialized():
            self._flusher.start()

    def _handle_step_start(self) -> None:
        self._end_sleep(is_ticking=True)
        for capture in tuple(self._captures.values()):
            capture.counter.tick = None
        if self._series.drain_ns is None:
            self._clear_times()
        self._restart_settling()

    def _restart_settling(self) -> None:
        self._settling_steps = _SETTLED_STEPS
        self._settles_at = self._series.since_capture + _SETTLED_STEPS

    def _handle_step_end(self) -> None:
        now = self._series.end_plain_step()
        if now:
            self.loop.log.note_step((_STEP, 0, get_ident(), now, now))
        else:
            self._handle_special_step_end(perf_counter_ns())
            self._series.plain_steps = self._count_plain_steps()
            if self._series.plain_steps and self._series.since_capture >= self._settles_at:
                self._let_graphs_sleep()
                self._series.plain_steps = self._count_plain_steps()

    def _count_plain_steps(self) -> int:
        """Return the number of steps from now on that only add a time, unless a capture, another
        kind of step or a profiler follows."""
        series, skip = self._series, self._settings.skip
        if series.is_special or not (series.last and self._flusher.started):
            return 0
        if self._attributing.profiling or self._profilers.is_running:
            return 0
        steps = series.since_capture
        # At each of these numbers, something else happens.
        limits = [skip // 2 - steps, skip - steps, self._settles_at - steps]
        if series.drain_ns is None:
            limits += [KEPT // 2 - len(series.times), KEPT - len(series.times)]
        if steps >= skip and not self._window.done:
            return 0
        return min((limit - 1 for limit in limits if limit > 0), default=0)

    def _handle_special_step_end(self, now: int) -> None:
        if self._compiled.has_new_recordings():
            self._compiled.read_trees(self._find_graph_id)
        has_served_kind = self._clock.boundary_kind in _SERVED
        if not has_served_kind:
            self.loop.log.note_step((_STEP, 0, get_ident(), now, now))
        window = self._window
        if window.profiling:
            self._window.end_step(self._is_window_complete())
            if self._window.done:
                self._handle_window_end(is_step_end=True)
            return
        if not (has_served_kind and self._step_captured):
            self._series.since_capture += 1
        self._step_captured = False
        self._note_profilers()
        if self._series.drain_ns is None:
            self._time(now)
        skip = self._settings.skip
        if self._series.since_capture == skip // 2:
            for capture in self._captures.values():
                capture.halfway = capture.counter.replays
        if not window.done and self._series.since_capture >= skip and self._is_window_due():
            self._open_window()
        elif window.done and self._series.drain_ns is not None:
            self._stop_ticking()
            self._begin_rest(is_step_end=True)

    def _note_profilers(self) -> None:
        if torch.autograd._profiler_enabled() or self._attributing.used:
            self._profiler_seen = True
            self.loop.record_profiler()
        if self._attributing.profiling:
            self._attributing.count_step()
            self._update_special()

    def _open_window(self) -> None:
        self._end_times()
        self._end_sleep(is_ticking=True)
        for capture in self._captures.values():
            capture.before_window = capture.counter.replays
            capture.counter.awake = True
        self._attributing.close(detach=False)
        self.loop.record_profiler()
        try:
            self._window.open()
        finally:
            self._update_special()

    def _is_window_due(self) -> bool:
        """Check if the window opens now, after enough steps."""
        replay_events = sum(
            capture.counter.replays * count_replay_events(capture.nodes)
            for capture in self._captures.values()
        )
        must_wait = self._window.measure_step(replay_events)
        return self._series.since_capture > self._settings.skip and not must_wait

    def _is_window_complete(self) -> bool:
        """Check if the window contains all graphs that it should.

        These are the graphs replayed in the second half of the steps before the window, from the
        places of graphs replayed in the window. Earlier requests of a server may never come again.
        """
        captures = list(self._captures.values())
        here = {c.captured_at for c in captures if c.counter.replays > c.before_window}
        return all(
            c.counter.replays > c.before_window
            for c in captures
            if c.before_window > c.halfway and c.captured_at in here and c.counter.alive
        )

    def _time(self, now: int) -> None:
        """Record the time of the step that ends now. The first step only starts the series."""
        series = self._series
        if not series.last:
            _wait_for_gpu()
            series.last = perf_counter_ns()
            return
        series.add_time(now)
        if len(series.times) == KEPT // 2:
            self._halfway = {each: own.counter.replays for each, own in self._captures.items()}
        if len(series.times) >= KEPT:
            self._end_times()

    def _end_times(self) -> None:
        """End the series of times with a wait for the GPU, whose remaining work belongs to it."""
        if self._series.drain_ns is None and self._series.times:
            begin = perf_counter_ns()
            _wait_for_gpu()
            self._series.drain_ns = perf_counter_ns() - begin

    def _clear_times(self) -> None:
        self._series.restart()
        if self._clock.boundary_kind not in _SERVED:
            self._series.since_capture = 0

    def _handle_window_end(self, *, is_step_end: bool = False) -> None:
        for capture in self._captures.values():
            capture.window_replays = capture.counter.replays - capture.before_window
        # Step times after a profiler are not recorded: CUPTI may still be attached.
        self._stop_ticking()
        if self._can_time_again():
            self.loop.record_detached()
        self._begin_rest(is_step_end=is_step_end)
        self._write_state()

    def _can_time_again(self) -> bool:
        return (
            self._window.attached is None
            and self._attributing.attached is None
            and self._window.ended_by is not WindowEnd.PROFILER
            and not torch.autograd._profiler_enabled()
        )

    def _close_capture(self, counter: ReplayCounter) -> _Capture:
        capture = self._captures[counter.id]
        self._forwards.end_capture()
        if capture in self._open:
            self._open.remove(capture)
            self._update_special()
            self._window.end_capture()
            self._attributing.end_capture()
            duration_ns = perf_counter_ns() - capture.began
            capture.capture_ns = max(0, duration_ns - capture.reading_ns)
        self._step_captured, self._series.plain_steps = True, 0
        self._calls_before_replay = 0
        # Steps with a capture are special, and so are all steps before them.
        if not self._window.profiling and not self._stopped:
            self._series.drain_ns = None
            self._clear_times()
            self._restart_settling()
        return capture

    def _begin_rest(self, *, is_step_end: bool) -> None:
        if not self.loop.serves:
            captures = self._captures
            # Within a step, some graphs have one replay more than others.
            after = {
                graph_id: capture.counter.replays if is_step_end else capture.before_window
                for graph_id, capture in captures.items()
            }
            counters = [capture.counter for capture in captures.values()]
            self.loop.rest.begin(counters, self._clock.boundary_kind, self._halfway, after)

    def _stop_ticking(self) -> None:
        self._stopped = self._series.is_special = True
        self._sleeping.end()
        self._compiled_calls.stop()
        self.loop.stop_ticking()
        self._optimizers.stop()

    def _handle_profiler_start(self) -> None:
        self._profiler_seen = self._profiler_seen or self._series.drain_ns is None
        self._series.plain_steps = 0
        self._end_sleep()
        self.loop.record_profiler()
        # The program's profiler uses CUPTI immediately.
        self.end_traces(detach=False, end=WindowEnd.PROFILER)

    def end_traces(self, detach: bool = True, end: WindowEnd | None = None) -> None:
        """Close open traces, in the traced thread if it still executes steps.

        Args:
            detach: False if the program ends or starts a profiler.
            end: Reason. None if the program ends.
        """
        with self._guard:
            self._attributing.close(detach)
            was_profiling = self._window.profiling
            self._window.close(end, detach)
            if was_profiling and not self._stopped:
                self._handle_window_end()
            self._update_special()

    # Output.

    def _flush(self) -> None:
        with self._guard:
            self._flushes += 1
            if self._traces.has_work:
                self._traces.write()
                self._write_state()
            self.loop.rest.count()
            self.loop.flush()
            self._write_progress()
            if self._sleeping.is_active and self._sleeping.has_other_anchor(self._clock):
                # The next replay of one of them wakes all.
                self._sleeping.handle_next_replays()
            if not self._open:
                if self._flushes % _STATE_EVERY == 0:
                    self._write_state()
                elif self._is_state_due:
                    self._write_state_soon()
                if self.loop.log.is_full:
                    self.loop.rest.end()
                    self._stop_noting()
                    self.loop.log.count_scopes()

    def _write_progress(self) -> None:
        series = self._series
        number, drain_ns = series.number, series.drain_ns
        times = series.times[self._progress.count_times(number) :]
        if number != series.number:
            # Another series started in the meantime; the next flush writes it.
            return
        replays = [counter.replays for counter in self._counters]
        self._progress.write(
            number, times, drain_ns, self._clock.steps, self.loop.log.dropped, replays
        )

    def _write_code_files(self) -> None:
        if self._has_programmatic_edges:
            write_code_files(self._folder)

    def _write_end(self) -> None:
        self._ended = True
        self._write_state()

    def _write_state_soon(self) -> None:
        """Write the state now, or with a later flush if it was written recently: an engine captures
        hundreds of graphs, and the state grows with each."""
        if self._flusher.started and time.monotonic() - self._state_written < _STATE_GAP_S:
            self._is_state_due = True
        else:
            self._write_state()

    def _write_state(self) -> None:
        self._is_state_due = False
        self._state_written = time.monotonic()
        with self._lock:
            state = self.build_state()
            if state != self._written:
                self._folder.put(STATE_FILE, state)
                self._written = state
            self._write_compilation()
            self._write_problems()
            self._ledger.write()

    def _write_compilation(self) -> None:
        count = self._compiled.record_count
        if count > self._compiled_told or self._compiled.is_finished:
            compilation = self._compiled.get_result()
            if compilation is not None:
                self._folder.put(COMPILATION_FILE, compilation)
            self._compiled_told = count

    def _find_graph_id(self, graph: object) -> str | None:
        """Return the id of a graph that has a file, now or later."""
        capture = self._captures.get(getattr(graph, COUNTER, self._earlier).id)
        return capture.counter.id if capture is not None and capture.nodes else None

    def _write_problems(self) -> None:
        errors = self._guard.errors + self._folder.refusals
        first = self._guard.first_error or self._folder.first_refusal
        if first is not None and (errors, self._gave_up) != self._problems_written:
            self._folder.put(PROBLEMS_FILE, Problems(errors, first, self._gave_up))
            self._problems_written = (errors, self._gave_up)

    def build_state(self) -> Recording:
        """Build the recording so far."""
        return Recording(
            boundary_kind=self._clock.boundary_kind,
            boundary=self._clock.boundary,
            skip_steps=self._settings.skip,
            requested_window_steps=self._settings.window,
            steps=self._clock.steps,
            step_ns=tuple(self._series.times),
            final_wait_ns=self._series.drain_ns,
            window_steps=self._window.marked,
            window_missing_reason=self._window.refused,
            profiler_active=self._profiler_seen,
            earlier_replays=self._earlier.replays,
            graphs=tuple(
                _build_graph(capture, capture in self._open)
                for capture in tuple(self._captures.values())
            ),
            window_open_ns=self._window.open_ns,
            window_close_ns=self._window.close_ns,
            window_ended_by=self._window.ended_by,
            cupti_attached=self._window.attached or self._attributing.attached,
            reached_end=self._ended,
        )


def _wait_for_gpu() -> None:
    """Wait for the GPU if the program uses it. Otherwise torch would initialise CUDA or raise."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _describe_holder(graph_id: str, name: str) -> str:
    return f"replay of {graph_id}, which holds {name}"


def _is_compiled_capture(frame: FrameType | None) -> bool:
    while frame is not None:
        if "cudagraph_trees" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _build_graph(capture: _Capture, is_open: bool) -> RecordedGraph:
    counter = capture.counter
    return RecordedGraph(
        graph=counter.id,
        captured_at=capture.captured_at,
        capture_ns=capture.capture_ns,
        step=capture.step,
        nodes=capture.nodes,
        replays=counter.replays,
        window_replays=capture.window_replays,
        profiled=capture.profiled,
        alive=counter.alive,
        problem="the capture had not ended" if is_open else capture.problem,
        eviction=capture.eviction,
    )
