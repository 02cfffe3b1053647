"""Record the operators of a step and hash their tensors, eagerly and in a capture.

In a capture the hash kernels become nodes, so each replay fills the log again.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from cuda.bindings import driver
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from collectors.doctor.places import SourceLocation, find_thread_location, find_user_location
from collectors.driver.calls import call
from collectors.operator_mode import OperatorMode
from collectors.replays.facts import OperatorFacts, Slot, TensorFacts
from collectors.replays.kernels import MAX_DIMENSIONS, SLOT_WORDS, get_kernels
from graphviz_dash.model.replay_check import HashedRole

MAX_SLOTS: Final = 1 << 16
"""Most tensors that one step hashes."""

_MAX_CHECKSUM: Final = 1 << 26
"""Bytes of a CPU tensor above which its content is not compared."""

_KINDS: Final = {
    torch.float16: 1,
    torch.bfloat16: 2,
    torch.float32: 3,
    torch.float64: 4,
    torch.int8: 5,
    torch.int16: 5,
    torch.int32: 5,
    torch.int64: 5,
}

_EMPTY_RESULTS: Final = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_"}
    | {"empty_permuted", "_resize_output_", "set_", "record_stream", "_pin_memory"}
)
"""Operators that leave the content of their result undefined."""

_UNDEFINED_RESULTS: Final = frozenset(
    {"philox_seed", "philox_offset", "rng_state", "unused", "debug_attn_mask", "reserve"}
    | {"logsumexp", "log_sumexp", "logsum_exp", "softmax_logsumexp", "seed", "offset"}
)
"""Results of fused operators with padding, or on another device in a capture than eagerly."""

END_NAME: Final = "end of the step"
"""Name of the operators of :meth:`OperatorRecorder.hash_end`."""

_WORKSPACE_OPERATORS: Final = ("cudnn", "miopen")


@dataclass
class ExternalMemory:
    """Memory from outside the step."""

    tensor: torch.Tensor
    """An alias of the first tensor that used it."""
    source: weakref.ref[torch.Tensor]
    """That tensor."""
    operator: int
    position: int
    receives_writes: bool = False


@dataclass(frozen=True)
class _Call:
    number: int
    facts: OperatorFacts
    inputs: list[torch.Tensor]
    targets: list[torch.Tensor]
    nodes: int | None
    """Nodes of the graph before it, or None if it is not captured."""


@dataclass
class StepRecord:
    """The operators of one run of a step."""

    operators: list[OperatorFacts] = field(default_factory=list)
    externals: dict[int, ExternalMemory] = field(default_factory=dict)
    """By storage."""
    slots: int = 0
    overflow: bool = False
    """More tensors than rows of the log."""


class HashLog:
    """Rows on the device that the hash kernels fill."""

    def __init__(self, slots: int = MAX_SLOTS) -> None:
        self._rows = torch.zeros(slots, SLOT_WORDS, dtype=torch.int64, device="cuda")
        self.slots = slots
        self._base = self._rows.data_ptr()
        self._kernels = get_kernels()

    def clear(self) -> None:
        """Set all rows to zero."""
        self._rows.zero_()

    def read(self, count: int) -> list[tuple[int, float, float, int]]:
        """Return the first rows: hash, sum of absolute values, signed sum, non-finite values."""
        torch.cuda.synchronize()
        rows = self._rows[:count].cpu()
        sums = rows[:, 1:3].contiguous().view(torch.float64)
        return [
            (row[0], total[0], total[1], row[3])
            for row, total in zip(rows.tolist(), sums.tolist(), strict=True)
        ]

    def add_hash(self, tensor: torch.Tensor, index: int) -> None:
        """Hash a strided GPU tensor into a row, on the current stream."""
        self._kernels.launch_hash(
            tensor.data_ptr(),
            tensor.shape,
            None if tensor.is_contiguous() else tensor.stride(),
            tensor.element_size(),
            _KINDS.get(tensor.dtype, 0),
            self._base + index * SLOT_WORDS * 8,
            get_stream(),
        )


class OperatorRecorder(OperatorMode):
    """Records the operators of a thread, and of its backward passes.

    Args:
        log: Receives the hashes, or None to record operators only.
        capture: The current stream is being captured; the nodes of each operator are recorded.
        hash_inputs_at: Operators whose inputs are hashed even if the step itself made them.
        names: Path of a module by its id.
        keep: Operator, role and position of a tensor to copy, and the tensor that receives it.
        guard: Handles errors of the recorder, which reach the step otherwise.
    """

    def __init__(
        self,
        log: HashLog | None,
        *,
        capture: bool,
        hash_inputs_at: frozenset[int] = frozenset(),
        names: dict[int, str] | None = None,
        keep: tuple[int, HashedRole, int, list[torch.Tensor]] | None = None,
        guard: AbstractContextManager[Any] | None = None,
    ) -> None:
        super().__init__()
        self._guard = nullcontext() if guard is None else guard
        self.record = StepRecord()
        self._log = log
        self._capture = capture
        self._hash_inputs_at = hash_inputs_at
        self._names = names or {}
        self._keep = keep
        self._owner = threading.get_ident()
        self._origin = get_stream() if torch.cuda.is_available() else 0
        self._writers: dict[int, int] = {}
        self._inner: dict[int, StorageWeakRef] = {}
        self._modules: list[int] = []
        self._by_sequence: dict[int, tuple[SourceLocation | None, str | None]] = {}
        self._hooks: list[Any] = []
        self.foreign_nodes: list[tuple[int, int, int]] = []
        """Nodes that no operator launched: operator before which they were seen, first, count."""
        self._nodes = 0
        self._is_end = False

    def __enter__(self) -> OperatorRecorder:
        hooks = torch.nn.modules.module
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._enter_module),
            hooks.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self._nodes = self._count_nodes()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._note_foreign_nodes(len(self.record.operators))
        for hook in self._hooks:
            hook.remove()

    def hash_end(self, tensors: Sequence[torch.Tensor]) -> None:
        """Hash tensors behind the last operator, because other kernels may write them there."""
        self._is_end = True
        with torch.no_grad():
            for tensor in tensors:
                torch.ops.aten.alias.default(tensor)

    def _enter_module(self, module: torch.nn.Module, _inputs: Any) -> None:
        if threading.get_ident() == self._owner:
            self._modules.append(id(module))

    def _leave_module(self, _module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        if threading.get_ident() == self._owner and self._modules:
            self._modules.pop()

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run and record an operator."""
        if torch.is_inference_mode_enabled():
            # Otherwise torch has already decomposed composite operators.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func._schema.name.startswith("profiler::"):
            return func(*args, **kwargs)
        return self._run(func, args, kwargs)

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before: _Call | None = None
        with self._guard:
            before = self._begin_operator(func, args, kwargs)
        result = func(*args, **kwargs)
        if before is not None:
            with self._guard:
                self._end_operator(func, before, result)
        return result

    def _begin_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        number = len(self.record.operators)
        leaves = tree_leaves((args, kwargs))
        inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        targets = find_written(func, args, kwargs)
        facts = self._describe(func, leaves, inputs, targets)
        is_node = self._capture and facts.in_capture
        always = self._is_end or number in self._hash_inputs_at
        if is_node:
            always |= self._note_foreign_nodes(number)
        self.record.operators.append(facts)
        self._hash_inputs(number, facts, inputs, targets, always=always)
        return _Call(number, facts, inputs, targets, self._count_nodes() if is_node else None)

    def _end_operator(self, func: Any, before: _Call, result: Any) -> None:
        facts, number = before.facts, before.number
        if before.nodes is not None:
            count = self._count_nodes() - before.nodes
            if count > 0:
                facts.first_node, facts.node_count = before.nodes, count
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self._register(number, before.inputs, before.targets, results)
        facts.on_gpu = facts.on_gpu or any(tensor.is_cuda for tensor in results)
        facts.writes_cpu = any(not tensor.is_cuda for tensor in before.targets) or (
            not is_view(func) and any(not tensor.is_cuda for tensor in results)
        )
        self._hash_outputs(number, facts, func, before.targets, results)
        if before.nodes is not None:
            self._nodes = self._count_nodes()

    def _describe(
        self,
        func: Any,
        leaves: Sequence[Any],
        inputs: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor],
    ) -> OperatorFacts:
        # A thread of autograd has no frames outside this module.
        spot = find_user_location(sys._getframe(1))
        module = self._get_module()
        node = torch._C._current_autograd_node()
        if node is not None:
            forward_spot, forward_module = self._by_sequence.get(node._sequence_nr(), (None, None))
            spot = forward_spot or spot or find_thread_location(self._owner)
            module = f"backward of {forward_module}" if forward_module else None
        else:
            spot = spot or find_thread_location(self._owner)
            # The first operator after a backward node was made belongs to that node.
            self._by_sequence.setdefault(torch.autograd._get_sequence_nr() - 1, (spot, module))
        stream = get_stream() if torch.cuda.is_available() else 0
        return OperatorFacts(
            name=END_NAME if self._is_end else func._schema.name,
            spot=None if self._is_end else spot,
            module=module,
            stream=stream,
            thread=get_thread_name(self._owner),
            tensors=tuple(self._describe_tensor(tensor) for tensor in inputs),
            scalars=tuple(describe_scalars(leaves)),
            on_gpu=any(tensor.is_cuda for tensor in (*inputs, *targets)),
            random=torch.Tag.nondeterministic_seeded in func.tags,
            writes_cpu=False,
            in_capture=not self._capture or is_capturing(stream),
            in_backward=node is not None,
        )

    def _get_module(self) -> str | None:
        if threading.get_ident() != self._owner:
            return None
        for identity in reversed(self._modules):
            if identity in self._names:
                return self._names[identity]
        return None

    def _describe_tensor(self, tensor: torch.Tensor) -> TensorFacts:
        if tensor.layout != torch.strided:
            return TensorFacts(
                0, tuple(tensor.shape), format_dtype(tensor), "cuda", external=False, writer=None
            )
        identity = get_storage_id(tensor)
        is_host_pinned = not tensor.is_cuda and torch.cuda.is_available() and tensor.is_pinned()
        return TensorFacts(
            address=tensor.data_ptr(),
            shape=tuple(tensor.shape),
            dtype=format_dtype(tensor),
            device="cuda" if tensor.is_cuda else "pinned" if is_host_pinned else "cpu",
            external=not self._is_inner(tensor),
            writer=self._writers.get(identity),
            content=None if tensor.is_cuda else compute_checksum(tensor),
        )

    def _is_inner(self, tensor: torch.Tensor) -> bool:
        reference = self._inner.get(get_storage_id(tensor))
        return reference is not None and not reference.expired()

    def _note_foreign_nodes(self, number: int) -> bool:
        count = self._count_nodes()
        if count <= self._nodes:
            return False
        self.foreign_nodes.append((number, self._nodes, count - self._nodes))
        self._nodes = count
        return True

    def _hash_inputs(
        self,
        number: int,
        facts: OperatorFacts,
        inputs: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor],
        *,
        always: bool,
    ) -> None:
        for position, tensor in enumerate(inputs):
            if tensor.layout != torch.strided:
                continue
            identity = get_storage_id(tensor)
            external = not self._is_inner(tensor)
            is_target = any(tensor is other for other in targets)
            if external:
                memory = self.record.externals.setdefault(
                    identity, ExternalMemory(tensor.detach(), weakref.ref(tensor), number, position)
                )
                memory.receives_writes |= is_target
            if not tensor.is_cuda or facts.name.rpartition(":")[2] in _EMPTY_RESULTS:
                continue
            if always or (external and identity not in self._writers):
                self._hash(number, facts, "input", position, tensor)

    def _register(
        self,
        number: int,
        inputs: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
    ) -> None:
        before = {get_storage_id(tensor) for tensor in inputs if tensor.layout == torch.strided}
        for tensor in results:
            if tensor.layout != torch.strided:
                continue
            identity = get_storage_id(tensor)
            if identity not in before:
                self._inner[identity] = StorageWeakRef(tensor.untyped_storage())
                self._writers[identity] = number
        for tensor in targets:
            if tensor.layout == torch.strided:
                self._writers[get_storage_id(tensor)] = number

    def _hash_outputs(
        self,
        number: int,
        facts: OperatorFacts,
        func: Any,
        targets: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
    ) -> None:
        if facts.name.rpartition(":")[2] in _EMPTY_RESULTS or is_view(func):
            return
        bad_results = find_undefined(func, results)
        tensors = [tensor for tensor in results if not any(tensor is bad for bad in bad_results)]
        tensors += [tensor for tensor in targets if not any(tensor is other for other in tensors)]
        for position, tensor in enumerate(tensors):
            if tensor.is_cuda:
                self._hash(number, facts, "output", position, tensor)

    def _hash(
        self,
        number: int,
        facts: OperatorFacts,
        role: HashedRole,
        position: int,
        tensor: torch.Tensor,
    ) -> None:
        reason = explain_unhashed(tensor)
        if reason is not None:
            facts.hash_gaps.append(reason)
            return
        if tensor.numel() == 0:
            return
        if self._keep is not None and self._keep[:3] == (number, role, position):
            target = self._keep[3][0]
            if target.shape == tensor.shape and target.dtype == tensor.dtype:
                self._copy(target, tensor)
        if self._log is None:
            return
        if self.record.slots >= self._log.slots:
            self.record.overflow = True
            return
        index = self.record.slots
        self.record.slots += 1
        facts.slots.append(Slot(role, position, index, tuple(tensor.shape), format_dtype(tensor)))
        self._log.add_hash(tensor, index)

    def _copy(self, target: torch.Tensor, tensor: torch.Tensor) -> None:
        with torch.no_grad():
            target.copy_(tensor)

    def _count_nodes(self) -> int:
        if not self._capture:
            return 0
        graph = get_captured_graph(self._origin)
        return 0 if graph is None else int(call(driver.cuGraphGetNodes, graph, 0)[1])


def find_written(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors among the arguments that an operator writes, by its schema."""
    targets: list[torch.Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = kwargs.get(argument.name, args[position] if position < len(args) else None)
        targets += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return targets


def is_view(func: Any) -> bool:
    """Check if all results alias arguments that the operator does not write."""
    returns = func._schema.returns
    return bool(returns) and all(
        item.alias_info is not None and not item.alias_info.is_write for item in returns
    )


def find_undefined(func: Any, results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return results whose content is undefined or differs between devices."""
    returns = func._schema.returns
    name = func._schema.name
    if len(returns) != len(results):
        return []
    return [
        tensor
        for item, tensor in zip(returns, results, strict=True)
        if item.name in _UNDEFINED_RESULTS
        or (tensor.dtype == torch.uint8 and any(part in name for part in _WORKSPACE_OPERATORS))
        or (tensor.dim() == 0 and tensor.dtype == torch.int64 and "attention" in name)
    ]


def explain_unhashed(tensor: torch.Tensor) -> str | None:
    """Explain why a tensor cannot be hashed, or return None."""
    if tensor.layout != torch.strided:
        return f"a tensor of layout {str(tensor.layout).removeprefix('torch.')}"
    if tensor.dim() > MAX_DIMENSIONS and not tensor.is_contiguous():
        return f"a strided tensor of {tensor.dim()} dimensions"
    if tensor.device.type == "cuda" and tensor.device.index != torch.cuda.current_device():
        return "a tensor on another device"
    return None


def describe_scalars(leaves: Sequence[Any]) -> Iterator[str]:
    """Yield numbers, strings, booleans and values of CPU scalars as text."""
    for leaf in leaves:
        if isinstance(leaf, bool | int | float | complex | str):
            yield repr(leaf)
        elif (
            isinstance(leaf, torch.Tensor)
            and leaf.device.type == "cpu"
            and leaf.dim() == 0
            and leaf.layout == torch.strided
        ):
            yield repr(leaf.detach().tolist())


def compute_checksum(tensor: torch.Tensor) -> int | None:
    """Return a checksum of a CPU tensor's values, or None if it is large or strided."""
    size = tensor.numel() * tensor.element_size()
    if not tensor.is_contiguous() or size > _MAX_CHECKSUM or tensor.is_quantized:
        return None
    return zlib.crc32(ctypes.string_at(tensor.data_ptr(), size)) if size else 0


def format_dtype(tensor: torch.Tensor) -> str:
    """Return torch's name of a data type, such as ``float32``."""
    return str(tensor.dtype).removeprefix("torch.")


def get_storage_id(tensor: torch.Tensor) -> int:
    """Return the identity of a strided tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


def get_stream() -> int:
    """Return the handle of the current stream."""
    return int(torch._C._cuda_getCurrentRawStream(torch.cuda.current_device()))


def is_capturing(stream: int) -> bool:
    """Check if a stream is part of an active capture."""
    status, state = driver.cuStreamIsCapturing(stream)
    # The driver returns an error for the legacy stream while another stream is captured.
    return int(status) == 0 and int(state) == 1


def get_captured_graph(stream: int) -> Any:
    """Return the CUgraph that a stream is captured into, or None."""
    status, *rest = driver.cuStreamGetCaptureInfo(stream)
    return rest[2] if int(status) == 0 and int(rest[0]) == 1 else None


def get_thread_name(owner: int) -> str | None:
    """Return the name of a Python thread other than ``owner``, or None."""
    identity = threading.get_ident()
    if identity == owner:
        return None
    return next((thread.name for thread in threading.enumerate() if thread.ident == identity), None)
