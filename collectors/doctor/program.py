"""Observe a program from within: its captures, or its training steps if it captures nothing.

Only the first illegal call of each capture is known, since the program cannot be run again. Without
captures, a step lasts from one optimizer step to the next or, without gradients, between calls of
an outermost module.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from cuda.bindings import runtime
from torch.multiprocessing.reductions import StorageWeakRef

from collectors.allocator.history import read_segments
from collectors.compiled.account import CompileRecorder
from collectors.doctor.attempts import (
    LineTracer,
    add_body_collectives,
    find_cause,
    find_deferred_frees,
    find_escaped_work,
)
from collectors.doctor.calls import observe
from collectors.doctor.conditionals import find_body_collectives, has_caller
from collectors.doctor.drafts import (
    FindingDraft,
    check_rules,
    find_cpu_work,
    find_differences,
    find_illegal_calls,
)
from collectors.doctor.events import Event, StepLog, Violation
from collectors.doctor.places import SourceLocation, find_user_location
from collectors.doctor.requests import COMPILATION_FILE, REPORT_FILE, ProgramSettings
from collectors.doctor.watch import StepWatch, relax_capture_mode
from collectors.driver.topology import has_conditional, read_graph
from collectors.guard import Guard
from collectors.program.hooks import OutermostCalls, watch_optimizer_steps
from collectors.program.launcher import get_scratch_folder, get_settings
from graphviz_dash.model.doctor import (
    DetectionMethod,
    DoctorReport,
    Evidence,
    RuleId,
    Severity,
)
from graphviz_dash.model.memory import DEFAULT_POOL

_TREES: Final = "cudagraph_trees.py"
_MAX_REPLAYS: Final = 16
"""Replays of each graph for which input memory is checked."""

_SILENT_STEPS: Final = (RuleId.MOVED_INPUT, RuleId.CHANGING_SHAPE, RuleId.CHANGING_SCALAR)


def hook() -> None:
    """Install the doctor; called in each process of the program right after ``import torch``."""
    program_settings = msgspec.json.decode(get_settings(), type=ProgramSettings)
    doctor = _ProgramDoctor(program_settings)
    doctor.install()
    # Include the time: a program that re-executes itself keeps its process id.
    file = get_scratch_folder() / f"{os.getpid()}-{time.time_ns()}-{REPORT_FILE}"
    atexit.register(doctor.write_report, file)


class _ProgramDoctor:
    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings
        self._pid = os.getpid()
        self._guard = Guard()
        self._findings: list[FindingDraft] = []
        self._captures = 0
        self._failed = 0
        self._current: tuple[StepWatch, LineTracer, ExitStack] | None = None
        self._registered: list[torch.Generator] = []
        self._reads: dict[int, list[tuple[StorageWeakRef, Event]]] = {}
        self._replays: dict[int, int] = {}
        self._nodes: list[int | None] = []
        self._steps = _StepObserver(settings)
        self._compiled = CompileRecorder(self._guard)
        self._graph_ends: list[SourceLocation | None] = []
        self._pools: set[tuple[int, ...]] = set()
        self._failed_pools: dict[tuple[int, ...], SourceLocation | None] = {}

    def install(self) -> None:
        """Replace torch's methods with observed ones, for the life of the process."""
        graph = torch.cuda.CUDAGraph
        begin, end, replay = graph.capture_begin, graph.capture_end, graph.replay
        register = graph.register_generator_state
        doctor = self

        def capture_begin(this: Any, *args: Any, **kwargs: Any) -> None:
            doctor.begin_capture(begin, this, args, kwargs)

        def capture_end(this: Any) -> None:
            doctor.end_capture(end, this)

        def launch(this: Any) -> None:
            doctor.check_replay(this)
            replay(this)

        def register_generator_state(this: Any, generator: torch.Generator) -> None:
            doctor._registered.append(generator)
            register(this, generator)

        graph.capture_begin = capture_begin
        graph.capture_end = capture_end
        graph.replay = launch
        graph.register_generator_state = register_generator_state
        self._steps.install()
        self._compiled.start()

    def begin_capture(
        self, original: Callable[..., None], this: Any, args: tuple[Any, ...], kwargs: Any
    ) -> None:
        self._steps.stop()
        if self._current is not None:
            original(this, *args, **kwargs)
            return
        self._captures += 1
        self._graph_ends.clear()
        stream = torch.cuda.current_stream()
        watch = StepWatch(stream.cuda_stream, capture=True, registered_generators=self._registered)
        try:
            original(this, *args, **kwargs)
        except RuntimeError as error:
            self._failed += 1
            self._add_findings(
                find_illegal_calls(StepLog([find_cause(watch, error)]), DetectionMethod.CAPTURE)
            )
            raise
        stack = ExitStack()
        stack.enter_context(observe(watch))
        lines = LineTracer(watch)
        stack.enter_context(lines)
        self._current = (watch, lines, stack)

    def end_capture(self, original: Callable[..., None], this: Any) -> None:
        if self._current is None:
            original(this)
            return
        watch, lines, stack = self._current
        self._current = None
        stack.close()
        nodes = _count_captured_nodes(watch.origin)
        collectives: tuple[Evidence, ...] = ()
        with self._guard:
            collectives = _read_body_collectives(watch.origin)
        raised = sys.exc_info()[1]
        try:
            original(this)
        except RuntimeError as error:
            self._record_failure(watch, error, lines, collectives)
            raise
        if raised is not None:
            # The step raised but the capture ended without an error: it is lost all the same.
            self._record_failure(watch, raised, lines, collectives)
            return
        self._add_findings(find_escaped_work(watch))
        self._add_findings(find_deferred_frees(watch))
        weakref.finalize(this, self._handle_graph_end).atexit = False
        self._pools.add(tuple(this.pool()))
        self._add_findings(find_cpu_work(watch.log))
        # torch.compile's CUDA graph trees make an empty capture once to create their pool.
        if nodes == 0 and watch.log.events:
            self._add_findings([_build_empty_capture_draft(watch.log)])
        self._nodes.append(nodes)
        self._track_inputs(this, watch)

    def _record_failure(
        self,
        watch: StepWatch,
        error: BaseException,
        lines: LineTracer,
        collectives: tuple[Evidence, ...] = (),
    ) -> None:
        self._failed += 1
        cause = add_body_collectives(find_cause(watch, error, lines.culprit), collectives)
        if self._graph_ends:
            spot = self._graph_ends[0]
            violation = Violation(
                RuleId.COLLECTED_GRAPH,
                (Evidence("graphs destroyed during the capture", len(self._graph_ends)),),
                cause.violation.message if cause.violation else None,
            )
            cause = replace(cause, op="", spot=spot or cause.spot, violation=violation)
        self._add_findings(find_illegal_calls(StepLog([cause]), DetectionMethod.CAPTURE))
        with self._guard:
            for pool, _ in _read_private_pools():
                if pool not in self._pools:
                    self._failed_pools.setdefault(pool, cause.spot)

    def _handle_graph_end(self) -> None:
        if self._current is not None:
            self._graph_ends.append(find_user_location(sys._getframe(1)))

    def _find_lost_pools(self) -> list[FindingDraft]:
        return [
            FindingDraft(
                rule=RuleId.FAILED_CAPTURE_POOL,
                severity=Severity.COSTLY,
                detected_by=DetectionMethod.CAPTURE,
                location=self._failed_pools[pool],
                evidence=(Evidence("memory reserved at the end", size, "B"),),
            )
            for pool, size in _read_private_pools()
            if pool in self._failed_pools
        ]

    def _track_inputs(self, graph: Any, watch: StepWatch) -> None:
        """Track the graph's input memory by weak references; replays need it alive."""
        self._replays[id(graph)] = 0
        if has_caller(sys._getframe(2), _TREES):
            # The trees track memory of their pool and copy inputs to their captured addresses.
            watch.external_tensors.clear()
        uses = []
        for outside in watch.external_tensors.values():
            event = Event(outside.op, outside.spot, "", captured=True, thread=None)
            uses.append((StorageWeakRef(outside.tensor.untyped_storage()), event))
        self._reads[id(graph)] = uses
        watch.external_tensors.clear()

    def check_replay(self, graph: Any) -> None:
        count = self._replays.get(id(graph))
        if count is None or count >= _MAX_REPLAYS:
            return
        self._replays[id(graph)] = count + 1
        freed = [event for memory, event in self._reads[id(graph)] if memory.expired()]
        if freed:
            spot = find_user_location(sys._getframe(2))
            self._add_findings(
                [
                    _build_freed_memory_draft(event, spot, count + 1, len(freed))
                    for event in freed[:1]
                ]
            )
            self._replays[id(graph)] = _MAX_REPLAYS

    def _add_findings(self, drafts: list[FindingDraft]) -> None:
        keys = {draft.key for draft in self._findings}
        self._findings += [draft for draft in drafts if draft.key not in keys]

    def write_report(self, file: os.PathLike[str]) -> None:
        """Write the report if there is anything to report; never in a forked child."""
        if os.getpid() == self._pid:
            with self._guard:
                self._write_report(file)
            with self._guard:
                self._write_compilation(file)

    def _write_report(self, file: os.PathLike[str]) -> None:
        self._steps.stop()
        if self._current is not None:
            # capture_begin without capture_end: the step raised in between.
            watch, _, _ = self._current
            self._failed += 1
            broken = [watch.breaking_event] if watch.breaking_event is not None else []
            self._add_findings(find_illegal_calls(StepLog(broken), DetectionMethod.CAPTURE))
        logs = self._steps.logs
        if not self._captures and not logs:
            return
        findings = list(self._findings)
        if not self._captures:
            findings += [
                *find_illegal_calls(logs[-1], DetectionMethod.EAGER),
                *find_differences(logs),
                *find_cpu_work(logs[-1]),
            ]
        if self._failed_pools:
            with self._guard:
                findings += self._find_lost_pools()
        report = self._build_report(_mark_first(findings), logs)
        Path(file).write_bytes(msgspec.json.encode(report))

    def _write_compilation(self, report: os.PathLike[str]) -> None:
        self._compiled.read_trees(lambda _: None)
        self._compiled.stop()
        compilation = self._compiled.get_result()
        if compilation is not None:
            name = os.fspath(report).removesuffix(REPORT_FILE) + COMPILATION_FILE
            Path(name).write_bytes(msgspec.json.encode(compilation))

    def _build_report(self, findings: list[FindingDraft], logs: list[StepLog]) -> DoctorReport:
        return DoctorReport(
            subject="program",
            captured=self._failed == 0 if self._captures else None,
            attempts=self._captures,
            nodes=self._nodes[0] if len(self._nodes) == 1 else None,
            steps=len(logs),
            operators=len(logs[-1].events) if logs else None,
            replays=sum(self._replays.values()),
            findings=tuple(draft.to_finding() for draft in findings),
            checks=check_rules(findings, lambda rule: self._explain_unchecked(rule, logs)),
            outputs=(),
        )

    def _explain_unchecked(self, rule: RuleId, logs: list[StepLog]) -> str | None:
        if rule is RuleId.REPLAY_DIFFERS:
            return "a program's step cannot be run again; pass the step as a --workload"
        if self._captures:
            if rule is RuleId.MOVED_INPUT:
                return None if self._replays else "no graph was replayed"
            if rule in (*_SILENT_STEPS, RuleId.CONTROL_FLOW):
                return "a program's capture is observed only once; pass the step as a --workload"
            return "a capture failed early" if self._failed else None
        if rule in _SILENT_STEPS and len(logs) < 2:
            return "fewer than two steps were observed"
        capture_rules = (
            RuleId.DEFAULT_STREAM,
            RuleId.TWO_CAPTURES,
            RuleId.OTHER_THREAD,
            RuleId.UNJOINED_STREAM,
            RuleId.NO_WARMUP,
            RuleId.FORBIDDEN_CALL,
            RuleId.ESCAPED_WORK,
            RuleId.EMPTY_CAPTURE,
            RuleId.OUT_OF_MEMORY,
            RuleId.COLLECTED_GRAPH,
            RuleId.GRADIENT_STREAM,
            RuleId.CONDITIONAL_COLLECTIVE,
            RuleId.FIRST_RANDOM,
            RuleId.DEFERRED_FREE,
            RuleId.FAILED_CAPTURE_POOL,
        )
        return "the program captured no graph" if rule in capture_rules else None


class _StepObserver:
    """Observes a program's training steps; with torch.compile only optimizers."""

    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings
        self.logs: list[StepLog] = []
        self._seen = 0
        self._done = False
        self._open: tuple[StepWatch, ExitStack] | None = None
        self._hooks = ExitStack()
        self._guard = Guard()
        self._calls = OutermostCalls(self._handle_module_call, self._guard)
        self._first_optimizer: int | None = None

    def install(self) -> None:
        self._hooks.enter_context(watch_optimizer_steps(self._handle_optimizer_step, self._guard))
        self._calls.start()
        self._hooks.callback(self._calls.stop)

    def stop(self) -> None:
        self._done = True
        self._hooks.close()
        self._close_step(keep=False)

    def _handle_optimizer_step(self, optimizer: Any) -> None:
        # A step may use several optimizers; it ends with the one seen first.
        if self._first_optimizer is None:
            self._first_optimizer = id(optimizer)
            self._calls.stop()
        if id(optimizer) == self._first_optimizer:
            self._start_next_step()

    def _handle_module_call(self, _module: Any, _inputs: tuple[Any, ...]) -> bool:
        if self._first_optimizer is None and not torch.is_grad_enabled():
            self._start_next_step()
        return False

    def _start_next_step(self) -> None:
        if self._done or not torch.cuda.is_initialized():
            return
        self._close_step(keep=True)
        self._seen += 1
        if len(self.logs) >= self._settings.steps:
            self._done = True
        elif self._seen > self._settings.skip:
            watch = StepWatch(torch.cuda.current_stream().cuda_stream, capture=False)
            stack = ExitStack()
            stack.enter_context(observe(watch))
            self._open = (watch, stack)

    def _close_step(self, *, keep: bool) -> None:
        if self._open is None:
            return
        watch, stack = self._open
        self._open = None
        stack.close()
        watch.external_tensors.clear()
        if keep:
            self.logs.append(watch.log)


def _read_private_pools() -> list[tuple[tuple[int, ...], int]]:
    sizes: dict[tuple[int, ...], int] = {}
    for segment in read_segments():
        if segment.pool != DEFAULT_POOL:
            sizes[segment.pool] = sizes.get(segment.pool, 0) + segment.end - segment.start
    return list(sizes.items())


def _get_captured_graph(stream: int) -> Any:
    """None if the capture is broken."""
    error, status, *rest = runtime.cudaStreamGetCaptureInfo(stream)
    active = runtime.cudaStreamCaptureStatus.cudaStreamCaptureStatusActive
    return None if int(error) != 0 or status != active else rest[1]


def _count_captured_nodes(stream: int) -> int | None:
    """None if the capture is broken."""
    # Capture queries may be refused to a capturing thread unless its mode is relaxed.
    with relax_capture_mode():
        graph = _get_captured_graph(stream)
        if graph is None:
            return None
        error, _, count = runtime.cudaGraphGetNodes(graph, 0)
    return int(count) if int(error) == 0 else None


def _read_body_collectives(stream: int) -> tuple[Evidence, ...]:
    """Read the captured graph's collectives in conditional bodies, before CUDA instantiates it."""
    with relax_capture_mode():
        graph = _get_captured_graph(stream)
        if graph is None or not has_conditional(graph):
            return ()
        return find_body_collectives(read_graph(int(graph), "graph"))


def _mark_first(findings: list[FindingDraft]) -> list[FindingDraft]:
    for index, draft in enumerate(findings):
        if draft.severity is Severity.ILLEGAL and draft.detected_by is DetectionMethod.CAPTURE:
            findings[index] = replace(draft, ends_capture=True)
            break
    return findings


def _build_empty_capture_draft(log: StepLog) -> FindingDraft:
    return FindingDraft(
        rule=RuleId.EMPTY_CAPTURE,
        severity=Severity.SILENT,
        detected_by=DetectionMethod.CAPTURE,
        location=log.events[0].spot if log.events else None,
        evidence=(
            Evidence("operators in the step", len(log.events)),
            Evidence("captured operators", 0),
        ),
    )


def _build_freed_memory_draft(
    event: Event, spot: SourceLocation | None, replay: int, count: int
) -> FindingDraft:
    return FindingDraft(
        rule=RuleId.MOVED_INPUT,
        severity=Severity.SILENT,
        detected_by=DetectionMethod.REPLAY,
        location=event.spot,
        op=event.op,
        evidence=(
            Evidence("freed tensors that the graph reads", count),
            Evidence("before replay", replay),
            *([Evidence("replayed at", spot.to_code_place().text)] if spot else []),
        ),
    )
