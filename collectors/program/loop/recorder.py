"""Record the loop of one process: captures and replays with their times and steps."""

from __future__ import annotations

from threading import Lock, get_ident
from time import perf_counter_ns
from types import FrameType
from typing import Any, Final

import torch

from collectors.guard import Guard
from collectors.program.files import ProcessFolder
from collectors.program.loop.engines.captures import (
    find_capture_facts,
    find_graph_name,
    read_numbers,
    read_record_fields,
)
from collectors.program.loop.engines.steps import EngineReports
from collectors.program.loop.engines.watch import EngineWatch
from collectors.program.loop.events import (
    EVENTS_FILE,
    FACTS_FILE,
    EventKind,
    GraphFacts,
    LoopFacts,
    LoopLog,
    PassFacts,
    ScopeFacts,
)
from collectors.program.loop.gpu_times import GpuTimes, ReplayTimer
from collectors.program.loop.labels import LabelScope, Said, StepNotes, Tick, label_facts
from collectors.program.loop.memory_costs import (
    Pool,
    PoolBytes,
    convert_pool,
    read_pools,
)
from collectors.program.rest import Rest

_SHAPES = 4
"""Maximum number of recorded input shapes per module, without weights."""
_PASSES: Final = 10_000
"""Maximum number of different input shapes of eager passes."""


class LoopRecorder:
    """Records events into :attr:`log`. The program's actions call the methods of the same names.

    ``tick`` is called at the end of each labelled block with None, and of each step of an engine
    with that engine.
    """

    def __init__(self, folder: ProcessFolder, guard: Guard, tick: Tick) -> None:
        self.log = LoopLog()
        self.rest = Rest(self.log)
        self._engine: str | None = None
        self._engine_capture_bytes: int | None = None
        self._folder = folder
        self._guard = guard
        self._notes = StepNotes(self.log, guard, tick)
        self._gpu_times = GpuTimes(self.log)
        self._graphs: list[GraphFacts] = []
        self._labels: dict[object, int] = {}
        self._modules: dict[int, int] = {}
        self._module_names: list[str] = []
        self._passes: dict[PassFacts, int] = {}
        self._passing: dict[int, int] = {}
        self._naming = Lock()
        self._clean = True
        self._captures_readable = True
        self._begun = False
        self._written: tuple[object, ...] = ()
        self._changes = 0
        self.serves = False
        """Steps differ: labels or an engine describe them, or some run eagerly."""
        self._open: dict[int, Pool | None] = {}
        self._pools: dict[Pool, PoolBytes] = {}
        self._private_bytes = 0
        self._outside: dict[int, int] = {}
        reports = EngineReports(self._notes, self._get_scope_number, self._handle_capture_bytes)
        self._engines = EngineWatch(reports, guard)

    def start(self) -> None:
        """Follow the engines that the program imports."""
        self._engines.start()

    def stop(self) -> None:
        """Restore the engines."""
        self._engines.stop()

    # Captures.

    def read_graph_facts(self, captured_at: tuple[str, ...], caller: FrameType) -> GraphFacts:
        """Read facts of a graph before its capture, when it has no number yet."""
        facts = GraphFacts(captured_at, place=_place_of(caller, captured_at))
        with self._guard:
            facts.shapes = _list_shapes(get_compiled_inputs(caller))
        if self._captures_readable:
            # An unknown version of an engine fails in the same way for each graph.
            self._captures_readable = False
            with self._guard:
                facts.engine = find_capture_facts(caller)
                self._captures_readable = True
        if facts.engine is None:
            with self._guard:
                facts.numbers = read_numbers(caller)
                facts.fields = read_record_fields(caller)
        return facts

    def find_graph_name(self, caller: FrameType) -> str | None:
        """Return an engine's name for the graph that ``caller`` captures, if any."""
        with self._guard:
            return find_graph_name(caller)
        return None

    def start_capture(self, facts: GraphFacts) -> None:
        """Start the capture of the next graph."""
        self._graphs.append(facts)

    def record_pool(self, number: int, pool: Any) -> None:
        """Record the memory pool of a capture, None if the program names none."""
        self._open[number] = convert_pool(pool)

    def prepare_capture_end(self, number: int, outside_bytes: int) -> None:
        """Prepare for the call that ends a capture and instantiates its graph.

        ``outside_bytes``: used device memory outside the allocator.
        """
        self._outside[number] = outside_bytes

    def record_capture(
        self, number: int, graph: Any, start_ns: int, instantiate_ns: int, outside_bytes: int
    ) -> tuple[Pool | None, int]:
        """Record a finished capture that started at ``start_ns`` by the performance counter.

        ``outside_bytes``: used device memory outside the allocator, after the capture.
        Returns its pool, None if unknown, and the bytes reserved by all private pools.
        """
        self.log.add(EventKind.CAPTURE, number, start_ns, perf_counter_ns())
        facts = self._graphs[number]
        self._changes += 1
        facts.instantiate_ns = instantiate_ns
        before_end = self._outside.pop(number, None)
        if before_end is not None:
            grown = outside_bytes - before_end
            facts.outside_bytes = grown if grown >= 0 else None
        facts.pool = self._open.pop(number, None) or convert_pool(graph.pool())
        if facts.pool is not None:
            # Since the last capture into this pool: programs warm up in the pool of their graphs.
            before = self._pools.get(facts.pool, PoolBytes(0, 0))
            pools = read_pools()
            now = self._pools[facts.pool] = pools.get(facts.pool, PoolBytes(0, 0))
            facts.pool_added_bytes = max(0, now.reserved_bytes - before.reserved_bytes)
            facts.own_bytes = max(0, now.allocated_bytes - before.allocated_bytes)
            self._private_bytes = sum(pool.reserved_bytes for pool in pools.values())
        return facts.pool, self._private_bytes

    def record_capture_failure(self, number: int) -> tuple[Pool | None, int]:
        """Record a failed capture; returns as :meth:`record_capture`."""
        pool = self._open.pop(number, None)
        self._private_bytes = sum(bytes_.reserved_bytes for bytes_ in read_pools().values())
        return pool, self._private_bytes

    def record_instantiation(self, number: int, duration_ns: int) -> None:
        """Record the instantiation of a graph that the program keeps."""
        self._changes += 1
        self._graphs[number].instantiate_ns = duration_ns

    # Replays and steps.

    def create_timer(self, number: int) -> ReplayTimer | None:
        """Create a timer for the next replay, or None."""
        return self._gpu_times.create_timer(number) if self._clean and not self._open else None

    def record_module_call(self, module: Any, inputs: tuple[Any, ...], capture: int | None) -> bool:
        """Record the call of an outermost module. True if its return must be reported."""
        is_numbered = id(module) in self._modules
        if capture is None:
            if is_numbered:
                self._passing[get_ident()] = self._get_pass_number(
                    self._modules[id(module)], inputs
                )
            return is_numbered
        facts = self._graphs[capture]
        if facts.module is None:
            if not is_numbered:
                self._assign_module_number(module)
            self._changes += 1
            facts.module = self._modules[id(module)]
            facts.shapes = facts.shapes or _list_shapes(inputs)
        return False

    def _assign_module_number(self, module: Any) -> None:
        with self._naming:
            if id(module) not in self._modules:
                self._module_names.append(type(module).__name__)
                self._modules[id(module)] = len(self._module_names) - 1

    def _get_pass_number(self, module: int, inputs: tuple[Any, ...]) -> int:
        facts = PassFacts(module, _list_shapes(inputs))
        number = self._passes.get(facts)
        if number is not None:
            return number
        with self._naming:
            if facts not in self._passes and len(self._passes) >= _PASSES:
                facts = PassFacts(module, ())
            return self._passes.setdefault(facts, len(self._passes))

    def record_module_return(self, _module: Any, begin: int) -> None:
        """Record the end of such a pass."""
        self.serves = True
        number = self._passing.pop(get_ident(), None)
        if number is not None:
            self.log.add(EventKind.PASS, number, begin, perf_counter_ns())

    def label(self, labels: Said) -> LabelScope | None:
        """Create the block of a label. None after an error."""
        with self._guard:
            number = self._labels.get(labels)
            if number is None:
                self.serves = True
                self.rest.end()
                name, real, phase, *key = labels
                number = self.log.get_scope_number(label_facts(name, real, phase, dict(key)))
                self._labels[labels] = number
            scope = LabelScope()
            scope.number = number
            scope.notes = self._notes
            return scope
        return None

    def stop_ticking(self) -> None:
        """Stop reporting ends of steps."""
        self._notes.tick = None

    def _get_scope_number(self, engine: str, scope: ScopeFacts) -> int:
        """Return the number of a scope of ``engine``."""
        if self._engine is None:
            self.rest.end()
        self._engine = engine
        self.serves = True
        return self.log.get_scope_number(scope)

    def _handle_capture_bytes(self, size: int) -> None:
        with self._guard:
            self._engine_capture_bytes = (self._engine_capture_bytes or 0) + size

    def record_marked_step(self, number: int, begin: int, end: int) -> None:
        """Record a step of the traced window."""
        self.log.add(EventKind.MARK, number, begin, end)

    def record_profiler(self) -> None:
        """Mark later times as affected by a profiler."""
        if self._clean:
            self._clean = False
            now = perf_counter_ns()
            self.log.add(EventKind.PROFILER, 0, now, now)

    def record_detached(self) -> None:
        """Mark later times as unaffected by the recorder's profiler, which is detached."""
        if not self._clean:
            now = perf_counter_ns()
            self.log.add(EventKind.CLEAN, 0, now, now)
            self._clean = True

    # Output.

    def flush(self) -> None:
        """Write the events since the last time, and the meaning of their numbers."""
        # First, so that the meaning of their numbers is known.
        events = self.log.drain()
        self._write_facts()
        # Last: without the facts, events are mere numbers.
        if events or not self._begun:
            self._begun = True
            self._folder.append(EVENTS_FILE, events)

    def _write_facts(self) -> None:
        current = (
            len(self.log.scopes),
            len(self._module_names),
            len(self._passes),
            len(self._graphs),
            self._changes,
            self._engine,
            self._engine_capture_bytes,
        )
        if current == self._written:
            return
        facts = LoopFacts(
            scopes=tuple(self.log.scopes),
            modules=tuple(self._module_names),
            passes=tuple(self._passes),
            graphs=tuple(self._graphs),
            origin=self.log.origin,
            dropped=self.log.dropped,
            engine=self._engine,
            engine_capture_bytes=self._engine_capture_bytes,
        )
        self._folder.put(FACTS_FILE, facts)
        self._written = current

    def finish(self) -> None:
        """Write the remaining events."""
        if torch.cuda.is_initialized():
            with self._guard:
                self._gpu_times.record_available()
        self._changes += 1
        self.flush()


def _place_of(caller: FrameType | None, captured_at: tuple[str, ...]) -> str:
    """Format the innermost line with its function: ``capture, server.py:8``."""
    if not captured_at:
        return ""
    name, _, line = captured_at[0].rpartition(":")
    frame = caller
    while frame is not None:
        at_line = str(frame.f_lineno) == line
        if at_line and frame.f_code.co_filename.endswith(name.rpartition("/")[2]):
            return f"{frame.f_code.co_name}, {captured_at[0]}"
        frame = frame.f_back
    return captured_at[0]


def get_compiled_inputs(frame: FrameType | None) -> tuple[Any, ...]:
    """Return the inputs that cudagraph trees copy into the graph captured in ``frame``, if any.

    Raises:
        AttributeError: Unknown version of torch.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_record" and code.co_filename.endswith("cudagraph_trees.py"):
            inputs = frame.f_locals["inputs"]
            return tuple(inputs[number] for number in frame.f_locals["self"].non_static_input_idx)
        frame = frame.f_back
    return ()


def _list_shapes(inputs: tuple[Any, ...]) -> tuple[tuple[int, ...], ...]:
    # Inputs of a compiled piece include its weights, which identify the piece but not the size of
    # its inputs.
    tensors = [value for value in inputs if _is_input(value)]
    return tuple(tuple(map(int, tensor.shape)) for tensor in tensors[:_SHAPES])


def _is_input(value: Any) -> bool:
    # `isinstance(value, Parameter)` runs Python code, which reads this attribute for plain tensors.
    if type(value) is torch.Tensor:
        return not getattr(value, "_is_param", False)
    return isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
