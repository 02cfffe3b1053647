"""Assemble the loop of a process from its events: steps, families and keys."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from collectors.program.loop.events import Event, EventKind, LoopFacts, ScopeFacts
from collectors.program.loop.families import FamilyBook
from collectors.program.loop.units import find_repetition, replay_units
from collectors.program.steps import BOUNDED
from graphviz_dash.model.loop import (
    MAX_LAUNCH_SAMPLES,
    MAX_LOOP_STEPS,
    GraphCost,
    GraphFamily,
    LoopSteps,
    ProgramLoop,
    SizeMethod,
    StepKind,
)
from graphviz_dash.model.recording import BoundaryKind


@dataclass
class StepEvents:
    """Events of one step, and its scope, if any."""

    scope: ScopeFacts | None = None
    thread: int = 0
    begin: int = 0
    end: int = 0
    """End of its last call."""
    replays: list[Event] = field(default_factory=list)
    captures: list[Event] = field(default_factory=list)
    passes: list[Event] = field(default_factory=list)
    """Calls of modules whose forward is captured elsewhere."""
    size: int | None = None
    """Requested size from an engine."""
    requests: int | None = None

    def add(self, event: Event) -> None:
        """Add an event by its kind."""
        {
            EventKind.REPLAY: self.replays,
            EventKind.CAPTURE: self.captures,
            EventKind.PASS: self.passes,
        }[event.kind].append(event)

    is_repetition: bool = False
    """The step is a period of the program's replays, whose inner loops may vary."""

    @property
    def graphs(self) -> tuple[int, ...]:
        """Replayed graphs in order, or captured graphs in a step that captures. Graphs of inner
        loops occur once."""
        graphs = tuple(event.ref for event in self.captures or self.replays)
        return tuple(dict.fromkeys(graphs)) if self.is_repetition else graphs

    @property
    def kind(self) -> StepKind:
        """Execution mode of the step."""
        if self.captures:
            return StepKind.CAPTURE
        if not self.replays:
            return StepKind.FALLBACK
        return StepKind.REPLAY if len(self.replays) == 1 else StepKind.SEGMENTS


def assemble_loop(
    events: Iterable[Event],
    facts: LoopFacts,
    graphs: Sequence[str],
    boundary: BoundaryKind | None,
) -> ProgramLoop:
    """Assemble the loop of a process from ``events`` in any order.

    ``facts`` has a row for each of ``graphs``, ids by their numbers. ``boundary`` describes the
    event that ends a step.
    """
    by_kind: dict[EventKind, list[Event]] = {kind: [] for kind in EventKind}
    for event in sorted(events, key=lambda event: event.begin):
        by_kind[event.kind].append(event)
    work = sorted(
        (
            *by_kind[EventKind.REPLAY],
            *by_kind[EventKind.CAPTURE],
            *by_kind[EventKind.PASS],
        ),
        key=lambda event: event.begin,
    )
    sizes = {(event.thread, event.begin): event for event in by_kind[EventKind.SIZE]}
    scoped, rest = _split_by_scopes(by_kind[EventKind.SCOPE], work, facts)
    for step in scoped:
        size = sizes.get((step.thread, step.begin))
        if size is not None and step.scope is not None and not step.scope.label:
            step.size, step.requests = size.ref, size.end or None
    if boundary in BOUNDED:
        unscoped = _split_by_ends(by_kind[EventKind.STEP], rest)
    else:
        unscoped = _split_by_order(_drop_repeated_passes(rest, facts), facts)
    steps = sorted((*scoped, *unscoped), key=lambda step: step.begin)
    book = FamilyBook(facts, graphs, has_bounds=boundary in BOUNDED)
    for step in steps:
        if step.captures:
            book.note_capture(step.graphs, step.scope)
    for step in steps:
        if step.replays and not step.captures:
            book.expect(step.graphs, step.scope)
    step_members = [(step, *_find_member(step, book)) for step in steps]
    step_members = [
        (step, family if _has_form(step, family, book) else None, member)
        for step, family, member in step_members
    ]
    clean = _CleanTimes.build(by_kind[EventKind.PROFILER], by_kind[EventKind.CLEAN])
    gpu = {(event.ref, event.begin): event.end for event in by_kind[EventKind.GPU]}
    recorded_steps = step_members[:MAX_LOOP_STEPS]
    clean_steps, later_clean_steps = clean.find_rows([step for step, *_ in recorded_steps])
    families = book.build_families()
    return ProgramLoop(
        families=families,
        graphs=_build_costs(by_kind[EventKind.REPLAY], gpu, facts, graphs, clean),
        steps=_build_columns(recorded_steps, book, families, gpu),
        step_count=len(steps) + facts.dropped,
        clean_steps=clean_steps,
        later_clean_steps=later_clean_steps,
        window_rows=_find_marked_steps(
            by_kind[EventKind.MARK], [step for step, *_ in recorded_steps]
        ),
        engine=facts.engine,
        engine_capture_bytes=facts.engine_capture_bytes,
    )


@dataclass(frozen=True)
class _CleanTimes:
    first_start: int | None
    """Start of the first profiler, or None."""
    detach_time: int | None
    """Later time when the recorder's profiler was detached, or None."""
    next_start: int | None
    """Start of the next profiler after ``detach_time``, or None."""

    @classmethod
    def build(cls, starts: Sequence[Event], ends: Sequence[Event]) -> _CleanTimes:
        first_start = starts[0].begin if starts else None
        detach_time = ends[0].begin if first_start is not None and ends else None
        next_starts = [
            event.begin
            for event in starts
            if detach_time is not None and event.begin >= detach_time
        ]
        return cls(first_start, detach_time, next_starts[0] if next_starts else None)

    def include(self, begin: int, end: int) -> bool:
        if self.first_start is None or end <= self.first_start:
            return True
        return (
            self.detach_time is not None
            and begin >= self.detach_time
            and (self.next_start is None or end <= self.next_start)
        )

    def find_rows(self, steps: Sequence[StepEvents]) -> tuple[int, tuple[int, int] | None]:
        """Return the number of clean leading steps, and the range of later clean ones, if any."""
        is_clean = [self.include(step.begin, step.end) for step in steps]
        first = next((row for row, clean in enumerate(is_clean) if not clean), len(steps))
        rows = [row for row in range(first, len(steps)) if is_clean[row]]
        return first, (rows[0], rows[-1] + 1) if rows else None


def _split_by_scopes(
    scopes: Sequence[Event], work: Sequence[Event], facts: LoopFacts
) -> tuple[list[StepEvents], list[Event]]:
    """Build a step for each outermost scope, and return the events outside of scopes.

    A thread without scopes, such as autograd's, works for the scope that is open at that time.
    """
    labelled = {event.thread for event in scopes if facts.scopes[event.ref].label}
    outermost: defaultdict[int, list[StepEvents]] = defaultdict(list)
    for event in sorted(scopes, key=lambda event: (event.begin, -event.end)):
        scope = facts.scopes[event.ref]
        if event.thread in labelled and not scope.label:
            continue
        steps = outermost[event.thread]
        if not steps or steps[-1].end <= event.begin:
            steps.append(StepEvents(scope, event.thread, event.begin, event.end))
    begins = {thread: [step.begin for step in steps] for thread, steps in outermost.items()}
    only = next(iter(outermost)) if len(outermost) == 1 else None
    rest = []
    for event in work:
        thread = event.thread if event.thread in outermost else only
        at = -1 if thread is None else bisect_right(begins[thread], event.begin) - 1
        if thread is not None and at >= 0 and event.begin < outermost[thread][at].end:
            outermost[thread][at].add(event)
        else:
            rest.append(event)
    return [step for steps in outermost.values() for step in steps], rest


def _drop_repeated_passes(work: Sequence[Event], facts: LoopFacts) -> list[Event]:
    """Drop passes that are no fallbacks: those that replay graphs, and those with the inputs of a
    graph, which warm up for its capture or validate it."""
    replays: defaultdict[int, list[int]] = defaultdict(list)
    for event in work:
        if event.kind is EventKind.REPLAY:
            replays[event.thread].append(event.begin)
    inputs = {(graph.module, graph.shapes) for graph in facts.graphs if graph.shapes}
    repeated = {
        number for number, call in enumerate(facts.passes) if (call.module, call.shapes) in inputs
    }

    def is_fallback(event: Event) -> bool:
        begins = replays[event.thread]
        at = bisect_right(begins, event.begin)
        return event.ref not in repeated and not (at < len(begins) and begins[at] < event.end)

    return [event for event in work if event.kind is not EventKind.PASS or is_fallback(event)]


def _split_by_ends(ends: Sequence[Event], work: Sequence[Event]) -> list[StepEvents]:
    """Build a step from the events between two ends; those after the last are incomplete."""
    times = [event.begin for event in ends]
    groups: defaultdict[int, list[Event]] = defaultdict(list)
    for event in work:
        groups[bisect_right(times, event.begin)].append(event)
    groups.pop(len(times), None)
    return [_build_step(group) for group in groups.values()]


def _split_by_order(work: Sequence[Event], facts: LoopFacts) -> list[StepEvents]:
    threads: defaultdict[int, list[Event]] = defaultdict(list)
    for event in work:
        threads[event.thread].append(event)
    steps = []
    for events in threads.values():
        replays = [event for event in events if event.kind is EventKind.REPLAY]

        def may_follow(first: int, second: int) -> bool:
            before, after = facts.graphs[first], facts.graphs[second]
            same_module = before.module is not None and before.module == after.module
            return before.captured_at[:1] == after.captured_at[:1] and not (
                same_module and before.shapes != after.shapes
            )

        sequence = [event.ref for event in replays]
        repetition = None
        if len({facts.graphs[graph].captured_at for graph in {*sequence}}) == len({*sequence}):
            # Graphs captured by the same calls are alternatives, such as sizes of a server.
            repetition = find_repetition(sequence)
        units = repetition or replay_units(sequence, may_follow)
        for begin, end in units:
            step = _build_step(replays[begin:end])
            step.is_repetition = repetition is not None
            steps.append(step)
        steps += _split_captures(events, facts)
    return steps


def _split_captures(events: Sequence[Event], facts: LoopFacts) -> Iterable[StepEvents]:
    """Separate captures with their warmup passes from other passes, which are fallbacks.

    Consecutive captures of segments with the same key belong together.
    """
    waiting: list[Event] = []
    segments: list[Event] = []
    scope: ScopeFacts | None = None
    for event in events:
        engine = facts.graphs[event.ref].engine if event.kind is EventKind.CAPTURE else None
        if segments and (engine is None or engine.scope != scope):
            yield _build_step(segments, scope)
            segments = []
        if event.kind is EventKind.CAPTURE:
            scope = None if engine is None else engine.scope
            if engine is not None and engine.is_segment:
                segments += [*waiting, event]
            else:
                yield _build_step([*waiting, event], scope)
            waiting = []
        elif event.kind is EventKind.REPLAY:
            yield from (_build_step([event]) for event in waiting)
            waiting = []
        else:
            waiting.append(event)
    if segments:
        yield _build_step(segments, scope)
    yield from (_build_step([event]) for event in waiting)


def _build_step(events: Sequence[Event], scope: ScopeFacts | None = None) -> StepEvents:
    first, end = events[0], max(event.end for event in events)
    step = StepEvents(scope, first.thread, first.begin, end)
    for event in events:
        step.add(event)
    return step


def _find_member(step: StepEvents, book: FamilyBook) -> tuple[int | None, int | None]:
    if step.kind is StepKind.FALLBACK:
        return book.find_fallback_family(step.scope, _find_first_pass(step)), None
    if step.captures:
        return book.find_captured_member(step.graphs, step.scope)
    return book.find_member(step.graphs, step.scope)


def _has_form(step: StepEvents, family: int | None, book: FamilyBook) -> bool:
    if step.kind is not StepKind.FALLBACK or step.scope is not None or family is None:
        return True
    return book.has_form(family, _find_first_pass(step))


def _find_first_pass(step: StepEvents) -> int | None:
    return step.passes[0].ref if step.passes else None


def _build_columns(
    step_members: Sequence[tuple[StepEvents, int | None, int | None]],
    book: FamilyBook,
    families: Sequence[GraphFamily],
    gpu: dict[tuple[int, int], int],
) -> LoopSteps:
    threads: dict[int, int] = {}
    rows = []
    for step, family, member in step_members:
        scope, kind = step.scope, step.kind
        real, method = _find_real_size(step)
        if real is None and kind is StepKind.FALLBACK and family is not None:
            real = book.find_pass_size(family, _find_first_pass(step))
            method = None if real is None else SizeMethod.SHAPES
        times = [gpu.get((event.ref, event.begin)) for event in step.replays]
        sampled = [time for time in times if time is not None]
        rows.append(
            (
                kind,
                scope.phase if scope else None,
                family,
                member,
                real,
                _find_padded_size(families, family, member),
                method,
                threads.setdefault(step.thread, len(threads)),
                max(0, step.begin),
                max(0, step.end),
                sum(event.end - event.begin for event in step.replays) or None,
                sum(sampled) if sampled and len(sampled) == len(times) else None,
                step.requests,
            )
        )
    columns = zip(*rows, strict=True) if rows else [()] * len(LoopSteps.__struct_fields__)
    return LoopSteps(*columns)


def _find_padded_size(
    families: Sequence[GraphFamily], family: int | None, member: int | None
) -> int | None:
    if family is None or member is None:
        return None
    key, axis = families[family].members[member].key, families[family].size_axis
    return None if key is None or axis is None else key[axis]


def _find_real_size(step: StepEvents) -> tuple[int | None, SizeMethod | None]:
    scope = step.scope
    if scope is None:
        return None, None
    if step.size is not None:
        return step.size, SizeMethod.ENGINE
    method = SizeMethod.LABEL if scope.label else SizeMethod.ENGINE
    if scope.real is not None:
        return scope.real, method
    # Eager steps are not padded: their key is the requested size.
    if step.kind is StepKind.FALLBACK and scope.key:
        return scope.key[0], method
    return None, None


def _build_costs(
    replays: Sequence[Event],
    gpu: dict[tuple[int, int], int],
    facts: LoopFacts,
    graphs: Sequence[str],
    clean: _CleanTimes,
) -> tuple[GraphCost, ...]:
    calls: defaultdict[int, list[int]] = defaultdict(list)
    for event in replays:
        if not calls[event.ref] or clean.include(event.begin, event.end):
            calls[event.ref].append(event.end - event.begin)
    samples: defaultdict[int, list[int]] = defaultdict(list)
    for (graph, begin), gpu_ns in gpu.items():
        if clean.include(begin, begin):
            samples[graph].append(gpu_ns)
    rows = []
    for number, graph_id in enumerate(graphs):
        graph_facts = facts.graphs[number]
        launches = calls[number]
        rows.append(
            GraphCost(
                graph=graph_id,
                instantiate_ns=graph_facts.instantiate_ns,
                first_launch_ns=launches[0] if launches else None,
                launch_ns=_select_evenly(launches[1:]),
                gpu_ns=_select_evenly(samples[number]),
                pool=graph_facts.pool,
                pool_growth_bytes=graph_facts.pool_added_bytes,
                exclusive_bytes=graph_facts.own_bytes,
                driver_bytes=graph_facts.outside_bytes,
            )
        )
    return tuple(rows)


def _select_evenly(values: Sequence[int]) -> tuple[int, ...]:
    if len(values) <= MAX_LAUNCH_SAMPLES:
        return tuple(values)
    return tuple(values[at * len(values) // MAX_LAUNCH_SAMPLES] for at in range(MAX_LAUNCH_SAMPLES))


def _find_marked_steps(
    marks: Sequence[Event], steps: Sequence[StepEvents]
) -> tuple[int | None, ...]:
    begins = [step.begin for step in steps]
    rows: list[int | None] = []
    for mark in sorted(marks, key=lambda mark: mark.ref):
        row = bisect_right(begins, mark.end) - 1
        rows.append(row if row >= 0 and begins[row] >= mark.begin else None)
    return tuple(rows)
