"""Find the first operator that a replay computes differently from an eager step.

The step is captured with a hash of every operator's tensors. Replays and eager steps start from the
same saved state, several times and with changed inputs, and their hashes are compared.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from cuda.bindings import driver
from msgspec.structs import replace
from torch import nn
from torch.utils._pytree import tree_leaves

from collectors.doctor.places import SourceLocation
from collectors.doctor.replays import iter_step_values
from collectors.driver.node_operands import OperandReader
from collectors.driver.operands import AllocationResolver
from collectors.driver.topology import read_graph
from collectors.replays.arguments import GraphMismatchError, find_stale_arguments
from collectors.replays.compare import (
    MAX_LISTED,
    ForeignKernel,
    Run,
    align_operators,
    find_fact_differences,
    find_missing_orders,
    find_parameter_differences,
    find_tensor_differences,
)
from collectors.replays.facts import OperatorFacts
from collectors.replays.marks import read_topology
from collectors.replays.operators import (
    ExternalMemory,
    HashLog,
    OperatorRecorder,
    StepRecord,
    get_storage_id,
)
from collectors.replays.state import (
    SavedState,
    StateTooLargeError,
    find_inputs,
    roll_values,
)
from collectors.workloads import Step
from graphviz_dash.model.graph import CapturedGraph, KernelParams, NodeKind
from graphviz_dash.model.replay_check import (
    CheckedOperator,
    CheckedTensor,
    CheckGap,
    ElementDifference,
    ForeignNodes,
    ReplayCheck,
    TensorDifference,
    ValueCheck,
    WrongElements,
)
from graphviz_dash.planning.replay_differences import find_first_difference

REPLAYS: Final = 3
"""Replays per round."""

WARMUP: Final = 3
"""Steps before the check."""

_MAX_ELEMENTS: Final = 10
_RELAXED_MODE: Final = "relaxed"
_MAX_NAMES: Final = 5
_GAP_KINDS: Final = {
    NodeKind.HOST: "a host function may read or write any memory",
    NodeKind.CHILD_GRAPH: "operators inside a child graph are not hashed",
    NodeKind.CONDITIONAL: "operators inside a conditional body are not hashed",
    NodeKind.MEM_ALLOC: "memory of an allocation node has no tensor",
    NodeKind.MEM_FREE: "memory of an allocation node has no tensor",
    NodeKind.SEMAPHORE_WAIT: "work of another library is not hashed",
    NodeKind.SEMAPHORE_SIGNAL: "work of another library is not hashed",
    NodeKind.BATCH_MEM_OP: "memory operations of the driver are not hashed",
}


@dataclass
class _HashedGraph:
    graph: Any
    """torch.cuda.CUDAGraph."""
    record: StepRecord
    read: CapturedGraph
    """Its nodes, with those of the hashes."""
    foreign: list[tuple[int, int, int]]
    result: Any
    """Result of the step, which keeps its memory."""

    @property
    def ends_with_foreign(self) -> bool:
        """Kernels outside operators follow the last operator."""
        return bool(self.foreign) and self.foreign[-1][0] == len(self.record.operators)


@dataclass
class _Rounds:
    replays: list[list[Run]] = field(default_factory=list)
    """By round, in order."""
    eager: list[list[Run]] = field(default_factory=list)
    repeat: list[Run] = field(default_factory=list)
    """Second eager steps of the first round."""


class StepChecker:
    """Compares replays of a step with eager steps.

    ``other_work`` is called before each replay and each eager step, or None.
    """

    def __init__(
        self,
        step: Step,
        *,
        replays: int = REPLAYS,
        other_work: Callable[[], object] | None = None,
        graph: Any = None,
    ) -> None:
        self._step = step
        self._replays = replays
        self._between = other_work
        self._stream = torch.cuda.Stream()
        self._names, self._fixed = _name_modules(step)
        self._log = HashLog()
        self._graph = graph
        self._mode = "global"
        self._gaps: list[CheckGap] = []
        self._hashes_end = False

    def check(self, warmup: int = WARMUP) -> ReplayCheck:
        """Run the check and restore the state of the step's memory."""
        start_ns = time.perf_counter_ns()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(warmup):
                self._step()
        torch.cuda.synchronize()
        before = self._record_step()
        try:
            hash_graph = self._capture()
            if hash_graph.ends_with_foreign:
                # No operator reads the result of the last kernels.
                self._hashes_end = True
                before = self._record_step()
                hash_graph = self._capture()
        except RuntimeError as error:
            if not is_capture_error(error):
                raise
            reason = f"the capture failed: {str(error).splitlines()[0]}"
            return _build_refusal(reason)
        externals = hash_graph.record.externals
        try:
            state = SavedState(before | externals)
        except StateTooLargeError as error:
            return _build_refusal(str(error))
        inputs = find_inputs(externals, self._fixed)
        rounds = self._run_rounds(hash_graph, state, inputs)
        check = self._build(hash_graph, rounds)
        check = self._add_parameters(check, hash_graph, state)
        check = self._add_arguments(check, state)
        check = self._add_elements(check, hash_graph, state, inputs)
        state.restore()
        duration = time.perf_counter_ns() - start_ns
        return ReplayCheck(
            subject="workload",
            values=(replace(check, duration_ns=duration),),
            stops=(),
            memory=(),
            graphs=1,
            gaps=(*_list_gaps(hash_graph), *self._gaps),
        )

    def _record_step(self) -> dict[int, ExternalMemory]:
        recorder = OperatorRecorder(None, capture=False)
        with torch.cuda.stream(self._stream), recorder:
            self._run_step(recorder)
        torch.cuda.synchronize()
        return recorder.record.externals

    def _run_step(self, recorder: OperatorRecorder) -> Any:
        result = self._step()
        if self._hashes_end:
            recorder.hash_end(_list_end_tensors(self._step, result))
        return result

    def _run_eager(self, hash_inputs_at: frozenset[int], keep: Any = None) -> Run:
        recorder = OperatorRecorder(
            self._log,
            capture=False,
            hash_inputs_at=hash_inputs_at,
            names=self._names,
            keep=keep,
        )
        self._log.clear()
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream), recorder:
            self._run_step(recorder)
        return Run(recorder.record.operators, self._log.read(recorder.record.slots))

    def _capture(
        self, hash_inputs_at: frozenset[int] = frozenset(), keep: Any = None
    ) -> _HashedGraph:
        """Capture the step, in relaxed mode if the strict mode refuses a call."""
        try:
            return self._try_capture(hash_inputs_at, keep, self._mode)
        except RuntimeError as error:
            if self._mode == _RELAXED_MODE or not is_capture_error(error):
                raise
            torch.cuda.synchronize()
            result = self._try_capture(hash_inputs_at, keep, _RELAXED_MODE)
            self._mode = _RELAXED_MODE
            return result

    def _try_capture(self, hash_inputs_at: frozenset[int], keep: Any, mode: str) -> _HashedGraph:
        gc.collect()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode=mode):
            recorder = OperatorRecorder(
                self._log,
                capture=True,
                hash_inputs_at=hash_inputs_at,
                names=self._names,
                keep=keep,
            )
            with recorder:
                result = self._run_step(recorder)
        read = read_graph(int(graph.raw_cuda_graph()), "graph-0")[0]
        graph.instantiate()
        return _HashedGraph(graph, recorder.record, read, recorder.foreign_nodes, result)

    def _run_rounds(
        self, hash_graph: _HashedGraph, state: SavedState, inputs: Sequence[torch.Tensor]
    ) -> _Rounds:
        rounds = _Rounds()
        at = frozenset(number for number, _, _ in hash_graph.foreign)
        for number in range(2 if inputs else 1):
            varied_inputs = inputs if number else ()
            rounds.replays.append(self._run_replays(hash_graph, state, varied_inputs))
            rounds.eager.append(self._run_steps(state, varied_inputs, at))
            if not number:
                rounds.repeat = self._run_steps(state, varied_inputs, at)
        return rounds

    def _run_replays(
        self, hash_graph: _HashedGraph, state: SavedState, varied_inputs: Sequence[torch.Tensor]
    ) -> list[Run]:
        state.restore()
        roll_values(varied_inputs)
        runs = []
        for _ in range(self._replays):
            self._run_between()
            self._log.clear()
            torch.cuda.synchronize()
            with torch.cuda.stream(self._stream):
                hash_graph.graph.replay()
            runs.append(Run(hash_graph.record.operators, self._log.read(hash_graph.record.slots)))
        return runs

    def _run_steps(
        self, state: SavedState, varied_inputs: Sequence[torch.Tensor], at: frozenset[int]
    ) -> list[Run]:
        state.restore()
        roll_values(varied_inputs)
        runs = []
        for _ in range(self._replays):
            self._run_between()
            runs.append(self._run_eager(at))
        return runs

    def _run_between(self) -> None:
        if self._between is not None:
            self._between()

    def _build(self, hash_graph: _HashedGraph, rounds: _Rounds) -> ValueCheck:
        differences: list[TensorDifference] = []
        for number, (replays, steps) in enumerate(zip(rounds.replays, rounds.eager, strict=True)):
            for position, (replay, eager) in enumerate(zip(replays, steps, strict=True)):
                repeat = rounds.repeat[position] if not number else None
                differences += find_tensor_differences(replay, eager, repeat, number, position + 1)
        operators = hash_graph.record.operators
        eager_steps = [run.operators for runs in rounds.eager for run in runs]
        edges = [(edge.source, edge.target) for edge in hash_graph.read.edges]
        # Hashes on other streams are not part of the graph.
        hash_nodes = sum(len(operator.slots) for operator in operators if operator.in_capture)
        return ValueCheck(
            operators=tuple(_build_operators(operators)),
            hash_count=hash_graph.record.slots,
            nodes=len(hash_graph.read.nodes) - hash_nodes,
            rounds=len(rounds.replays),
            replays=self._replays,
            differences=tuple(differences[:MAX_LISTED]),
            difference_count=len(differences),
            facts=tuple(find_fact_differences(operators, eager_steps)),
            orders=tuple(find_missing_orders(operators, edges)),
            foreign=tuple(
                ForeignNodes(before, first, count, _name_kernels(hash_graph.read, first, count))
                for before, first, count in hash_graph.foreign
            ),
        )

    def _add_arguments(self, check: ValueCheck, state: SavedState) -> ValueCheck:
        if self._graph is None:
            return check
        state.restore()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode=self._mode):
            recorder = OperatorRecorder(None, capture=True)
            with recorder:
                # The result keeps its memory until the comparison ends.
                result = self._step()
        try:
            arguments = find_stale_arguments(self._graph, graph, recorder.record)
        except GraphMismatchError as error:
            self._gaps.append(CheckGap("the program's graph", str(error)))
            return check
        del result
        return replace(check, arguments=tuple(arguments))

    def _add_parameters(
        self, check: ValueCheck, hash_graph: _HashedGraph, state: SavedState
    ) -> ValueCheck:
        if not hash_graph.foreign:
            return check
        state.restore()
        try:
            second = self._capture()
        except RuntimeError:
            return check
        facts = find_parameter_differences(
            _read_foreign_kernels(hash_graph), _read_foreign_kernels(second)
        )
        return replace(
            check, facts=tuple(sorted((*check.facts, *facts), key=lambda item: item.operator))
        )

    def _add_elements(
        self,
        check: ValueCheck,
        hash_graph: _HashedGraph,
        state: SavedState,
        inputs: Sequence[torch.Tensor],
    ) -> ValueCheck:
        first = find_first_difference(check)
        if first is None or first.absent:
            return check
        dtype = getattr(torch, first.tensor.dtype)
        targets = [torch.zeros(first.tensor.shape, dtype=dtype, device="cuda") for _ in range(2)]
        key = (first.operator, first.tensor.role, first.tensor.position)
        at = frozenset(number for number, _, _ in hash_graph.foreign)
        varied_inputs = inputs if first.round else ()
        state.restore()
        try:
            repeat = self._capture(at, (*key, [targets[0]]))
        except RuntimeError:
            return check
        state.restore()
        roll_values(varied_inputs)
        for _ in range(first.replay):
            self._run_between()
            with torch.cuda.stream(self._stream):
                repeat.graph.replay()
            torch.cuda.synchronize()
        state.restore()
        roll_values(varied_inputs)
        run = None
        for number in range(first.replay):
            self._run_between()
            keep = (*key, [targets[1]]) if number == first.replay - 1 else None
            run = self._run_eager(at, keep)
        if run is None or not _is_same_tensor(hash_graph.record.operators, run.operators, first):
            return check
        elements = read_elements(first.operator, first.tensor, targets[0], targets[1])
        return replace(check, elements=elements)


def check_step(
    step: Step,
    *,
    replays: int = REPLAYS,
    warmup: int = WARMUP,
    other_work: Callable[[], object] | None = None,
    graph: Any = None,
) -> ReplayCheck:
    """Compare replays of ``step`` with eager steps; see :class:`StepChecker`."""
    checker = StepChecker(step, replays=replays, other_work=other_work, graph=graph)
    return checker.check(warmup)


def read_elements(
    operator: int, tensor: CheckedTensor, replay: torch.Tensor, eager: torch.Tensor
) -> WrongElements:
    """Return the first elements that differ; NaN equals NaN."""
    unequal = replay != eager
    if replay.is_floating_point() or replay.is_complex():
        unequal &= ~(torch.isnan(replay) & torch.isnan(eager))
    positions = unequal.nonzero()
    first = tuple(
        ElementDifference(
            tuple(position),
            _convert_to_float(eager[tuple(position)]),
            _convert_to_float(replay[tuple(position)]),
        )
        for position in positions[:_MAX_ELEMENTS].tolist()
    )
    return WrongElements(operator, tensor, len(positions), replay.numel(), first)


def _convert_to_float(value: torch.Tensor) -> float:
    return float(abs(value.item()) if value.is_complex() else value.item())


def _is_same_tensor(
    captured_operators: Sequence[OperatorFacts],
    eager: Sequence[OperatorFacts],
    first: TensorDifference,
) -> bool:
    alignment = align_operators(captured_operators, eager)
    return alignment.get(first.operator) == first.operator


def _build_operators(operators: Sequence[OperatorFacts]) -> list[CheckedOperator]:
    streams: dict[int, int] = {}
    locations: dict[SourceLocation, Any] = {}
    result = []
    for operator in operators:
        location = None
        if operator.spot is not None:
            if operator.spot not in locations:
                locations[operator.spot] = operator.spot.to_code_place()
            location = locations[operator.spot]
        result.append(
            CheckedOperator(
                name=operator.name,
                location=location,
                module=operator.module,
                stream=streams.setdefault(operator.stream, len(streams)),
                first_node=operator.first_node,
                nodes=operator.node_count,
                in_capture=operator.in_capture,
                random=operator.random,
                on_gpu=operator.on_gpu,
                writes_cpu=operator.writes_cpu,
                reads_cpu=operator.on_gpu
                and any(tensor.device != "cuda" and tensor.shape for tensor in operator.tensors),
                cpu_writer=next(
                    (
                        tensor.writer
                        for tensor in operator.tensors
                        if tensor.device != "cuda" and tensor.shape and operator.on_gpu
                    ),
                    None,
                ),
            )
        )
    return result


def _list_end_tensors(step: Step, result: object) -> list[torch.Tensor]:
    """Return the GPU tensors of a step's result and variables, one per storage."""
    variables = [value for _, value in iter_step_values(step)]
    tensors = {
        get_storage_id(leaf): leaf
        for leaf in tree_leaves((result, variables))
        if isinstance(leaf, torch.Tensor) and leaf.is_cuda and leaf.layout == torch.strided
    }
    return list(tensors.values())


def _name_modules(step: Step) -> tuple[dict[int, str], frozenset[int]]:
    """Return module paths by id, and storages of parameters and buffers."""
    names: dict[int, str] = {}
    parameters: set[int] = set()
    for name, value in iter_step_values(step):
        if not isinstance(value, nn.Module):
            continue
        for path, module in value.named_modules():
            names.setdefault(id(module), f"{name}.{path}" if path else name)
        for tensor in (*value.parameters(), *value.buffers()):
            if tensor.layout == torch.strided:
                parameters.add(get_storage_id(tensor))
    return names, frozenset(parameters)


def _name_kernels(graph: CapturedGraph, first: int, count: int) -> tuple[str, ...]:
    names = [
        node.params.demangled if isinstance(node.params, KernelParams) else node.kind.value
        for node in graph.nodes[first : first + count]
    ]
    return tuple(dict.fromkeys(names))[:_MAX_NAMES]


def _read_foreign_kernels(hash_graph: _HashedGraph) -> list[ForeignKernel]:
    reader = OperandReader(AllocationResolver((), (), lambda _: None))
    nodes, _ = read_topology(driver.CUgraph(int(hash_graph.graph.raw_cuda_graph())))
    kernels = []
    for before, first, count in hash_graph.foreign:
        for index in range(first, first + count):
            params = hash_graph.read.nodes[index].params
            if isinstance(params, KernelParams):
                arguments = reader.read_kernel_arguments(nodes[index]) or b""
                kernels.append(ForeignKernel(before, params.demangled, arguments))
    return kernels


def _list_gaps(hash_graph: _HashedGraph) -> list[CheckGap]:
    counts: dict[tuple[str, str], int] = {}
    for node in hash_graph.read.nodes:
        if node.kind in _GAP_KINDS:
            key = (f"{node.kind.value} nodes", _GAP_KINDS[node.kind])
            counts[key] = counts.get(key, 0) + 1
    for operator in hash_graph.record.operators:
        for reason in operator.hash_gaps:
            key = ("tensors", reason)
            counts[key] = counts.get(key, 0) + 1
    if hash_graph.record.overflow:
        counts["tensors", f"only the first {hash_graph.record.slots:,} are hashed"] = 1
    return [CheckGap(subject, reason, count) for (subject, reason), count in counts.items()]


def _build_refusal(reason: str) -> ReplayCheck:
    return ReplayCheck(
        subject="workload",
        values=(),
        stops=(),
        memory=(),
        graphs=0,
        gaps=(CheckGap("values", reason),),
    )


def is_capture_error(error: RuntimeError) -> bool:
    """Check if an error comes from a capture rather than from the step."""
    text = str(error).lower()
    return "captur" in text or "graph" in text
