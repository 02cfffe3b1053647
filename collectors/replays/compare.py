"""Compare the records of a captured step and of eager steps. Needs no torch."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, TypeAlias

from collectors.driver.operands import find_addresses
from collectors.replays.facts import OperatorFacts, Slot, TensorFacts
from graphviz_dash.model.replay_check import (
    CheckedTensor,
    FactDifference,
    FactKind,
    MissingOrder,
    TensorDifference,
)

Row: TypeAlias = tuple[int, float, float, int]
"""Hash, sum of absolute values, signed sum, number of non-finite values."""

MAX_LISTED: Final = 200
"""Most differing tensors that are stored."""

_SMALLEST: Final = 1e-20
_LARGEST: Final = 1e20
"""Sizes of a word that is read as a floating-point number; small integers are below."""

_EMPTY: Final = 0
"""Hash of a slot that nothing wrote."""

_QUIET: Final = frozenset(
    {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::detach", "aten::alias"}
    | {"aten::lift_fresh", "aten::_local_scalar_dense", "aten::is_pinned"}
)
"""Operators that a step may run in another number without another result."""


@dataclass(frozen=True)
class ForeignKernel:
    """A kernel that no operator launched."""

    before: int
    """Operator before which it was captured."""
    name: str
    arguments: bytes
    """Arguments of its launch; empty if unreadable."""


@dataclass(frozen=True)
class Run:
    """One run of a step or of its graph."""

    operators: Sequence[OperatorFacts]
    """Its operators: those of the capture for a replay."""
    rows: Sequence[Row]


def align_operators(
    base: Sequence[OperatorFacts], eager: Sequence[OperatorFacts]
) -> dict[int, int]:
    """Map operators of the capture to those of an eager step."""
    names = [operator.name for operator in base]
    other_names = [operator.name for operator in eager]
    if names == other_names:
        return {index: index for index in range(len(names))}
    matcher = SequenceMatcher(None, names, other_names, autojunk=False)
    return {
        block.a + offset: block.b + offset
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }


def find_other_path(
    base: Sequence[OperatorFacts], eager: Sequence[OperatorFacts]
) -> FactDifference | None:
    """Return the first GPU operator at which an eager step runs another one, or None."""
    first = [(index, item) for index, item in enumerate(base) if _is_relevant(item)]
    second = [item for item in eager if _is_relevant(item)]
    for position, (index, item) in enumerate(first):
        other = second[position] if position < len(second) else None
        if other is None or other.name != item.name:
            return FactDifference(
                index, FactKind.PATH, 0, item.name, (other.name if other else "end of the step",)
            )
    if len(second) > len(first) and base:
        return FactDifference(
            len(base) - 1, FactKind.PATH, 0, "end of the step", (second[len(first)].name,)
        )
    return None


def _is_relevant(operator: OperatorFacts) -> bool:
    return operator.on_gpu and operator.name not in _QUIET


def find_fact_differences(
    base: Sequence[OperatorFacts],
    eager_steps: Sequence[Sequence[OperatorFacts]],
) -> list[FactDifference]:
    """Find facts of the capture that an eager step does not share."""
    alignments = [align_operators(base, eager) for eager in eager_steps]
    differences: list[FactDifference] = []
    for eager in eager_steps:
        path = find_other_path(base, eager)
        if path is not None:
            differences.append(path)
            break
    for index, operator in enumerate(base):
        others = [
            eager[alignment[index]]
            for eager, alignment in zip(eager_steps, alignments, strict=True)
            if index in alignment
        ]
        if not others:
            continue
        differences += _compare_scalars(index, operator, others)
        differences += _compare_tensors(index, operator, others)
    return sorted(differences, key=lambda item: item.operator)


def _compare_scalars(
    index: int, operator: OperatorFacts, others: Sequence[OperatorFacts]
) -> list[FactDifference]:
    if not operator.on_gpu:
        return []
    result = []
    for position, value in enumerate(operator.scalars):
        values = tuple(other.scalars[position] for other in others if len(other.scalars) > position)
        if any(value != other for other in values):
            result.append(FactDifference(index, FactKind.SCALAR, position, value, values))
    return result


def _compare_tensors(
    index: int, operator: OperatorFacts, others: Sequence[OperatorFacts]
) -> list[FactDifference]:
    result = []
    for position, tensor in enumerate(operator.tensors):
        matching = [other.tensors[position] for other in others if len(other.tensors) > position]
        if tensor.device == "cpu" and not tensor.shape:
            continue
        if operator.on_gpu and any(other.shape != tensor.shape for other in matching):
            shapes = tuple(str(list(other.shape)) for other in matching)
            result.append(
                FactDifference(index, FactKind.SHAPE, position, str(list(tensor.shape)), shapes)
            )
        if tensor.external and tensor.device != "cpu":
            addresses = tuple(hex(other.address) for other in matching)
            if any(_is_other_memory(tensor, other) for other in matching):
                result.append(
                    FactDifference(
                        index, FactKind.ADDRESS, position, hex(tensor.address), addresses
                    )
                )
        contents = [other.content for other in matching]
        if (
            tensor.content is not None
            and operator.on_gpu
            and any(content not in (None, tensor.content) for content in contents)
        ):
            result.append(
                FactDifference(
                    index,
                    FactKind.HOST_VALUE,
                    position,
                    f"checksum {tensor.content:08x}",
                    tuple(f"checksum {content:08x}" for content in contents if content is not None),
                )
            )
    return result


def _is_other_memory(base: TensorFacts, eager: TensorFacts) -> bool:
    return (
        eager.external
        and eager.device == base.device
        and eager.shape == base.shape
        and eager.address != base.address
    )


def find_parameter_differences(
    first: Sequence[ForeignKernel], second: Sequence[ForeignKernel]
) -> list[FactDifference]:
    """Find numbers that kernels outside operators receive differently in a second capture.

    Addresses may differ, since each capture has its own memory.
    """
    differences = []
    for kernel, other in zip(first, second, strict=False):
        if (kernel.name, kernel.before) != (other.name, other.before):
            break
        position = find_changed_word(kernel.arguments, other.arguments)
        if position is not None:
            differences.append(
                FactDifference(
                    kernel.before,
                    FactKind.PARAMETER,
                    position,
                    format_word(kernel.arguments, position),
                    (format_word(other.arguments, position),),
                )
            )
    return differences


def find_changed_word(first: bytes, second: bytes) -> int | None:
    """Return the first 32-bit word that differs and is not part of an address, or None."""
    return next(iter(list_changed_words(first, second)), None)


def list_changed_words(first: bytes, second: bytes) -> list[int]:
    """Return the 32-bit words that differ and are not part of an address."""
    if len(first) != len(second):
        return []
    words = len(first) // 4
    first_words, second_words = (struct.unpack_from(f"<{words}I", data) for data in (first, second))
    parts = set()
    for data in (first, second):
        # Each parameter begins at a multiple of 8 bytes.
        for position in range(0, words - 1, 2):
            if find_addresses(data[4 * position : 4 * position + 8]):
                parts |= {position, position + 1}
    return [
        position
        for position in range(words)
        if first_words[position] != second_words[position] and position not in parts
    ]


def find_changed_number(first: bytes, second: bytes, scalars: Sequence[str]) -> int | None:
    """Return the first changed word whose second value comes from a number among ``scalars``.

    Other words may be bytes between the fields of a structure, which are not defined.
    """
    numbers = [number for text in scalars if (number := _parse_number(text)) is not None]
    forms = [form for number in numbers for form in _list_forms(number)]
    return next(
        (
            position
            for position in list_changed_words(first, second)
            if any(_is_word(second, position, form) for form in forms)
        ),
        None,
    )


def _parse_number(text: str) -> float | None:
    with suppress(ValueError):
        return float(text)
    return None


def _list_forms(number: float) -> list[float]:
    """Return a number as operators pass it to kernels, such as the inverse of a divisor."""
    return [
        number,
        -number,
        1 - number,
        *(1 / divisor for divisor in (number, 1 - number) if divisor),
    ]


def _is_word(arguments: bytes, position: int, number: float) -> bool:
    """Check if a word is the number in 32 bits, or a part of it in 64 bits.

    Zero and the integer one are too common among undefined bytes.
    """
    begin, pair = 4 * position, 4 * (position - position % 2)
    if not number:
        return False
    with suppress(struct.error, OverflowError):
        if arguments[begin : begin + 4] == struct.pack("<f", number):
            return True
    with suppress(struct.error):
        if arguments[pair : pair + 8] == struct.pack("<d", number):
            return True
    if not number.is_integer() or abs(number) == 1:
        return False
    (integer,) = struct.unpack_from("<i", arguments, begin)
    return integer == int(number)


def format_word(arguments: bytes, position: int) -> str:
    """Format a 32-bit word of a kernel's arguments as the number that it probably is."""
    (integer,) = struct.unpack_from("<i", arguments, 4 * position)
    (number,) = struct.unpack_from("<f", arguments, 4 * position)
    is_float = math.isfinite(number) and _SMALLEST < abs(number) < _LARGEST
    return f"{number:.7g}" if is_float else str(integer)


def find_tensor_differences(
    replay: Run,
    eager: Run,
    repeat: Run | None,
    round_number: int,
    replay_number: int,
) -> list[TensorDifference]:
    """Return the hashed tensors that differ between a replay and an eager step, in order.

    ``repeat`` is a second eager step from the same state, or None. ``round_number`` counts inputs,
    ``replay_number`` replays since the saved state.
    """
    alignment = align_operators(replay.operators, eager.operators)
    repeat_rows = {} if repeat is None else _index_rows(repeat)
    repeat_alignment = {} if repeat is None else align_operators(replay.operators, repeat.operators)
    rows = _index_rows(eager)
    differences = []
    for index, operator in enumerate(replay.operators):
        if index not in alignment:
            continue
        for slot in operator.slots:
            other = rows.get((alignment[index], slot.role, slot.position))
            if other is None:
                continue
            mine, theirs = replay.rows[slot.index], other[1]
            if mine == theirs or mine[0] == theirs[0]:
                continue
            noise = None
            key = (repeat_alignment.get(index, -1), slot.role, slot.position)
            if key in repeat_rows:
                second = repeat_rows[key][1]
                noise = 0.0 if second[0] == theirs[0] else _compare_sums(theirs, second)
            differences.append(
                TensorDifference(
                    round=round_number,
                    replay=replay_number,
                    operator=index,
                    tensor=CheckedTensor(slot.role, slot.position, slot.dtype, slot.shape),
                    relative=_compare_sums(theirs, mine),
                    eager_difference=noise,
                    absent=mine[0] == _EMPTY,
                )
            )
    return differences


def _index_rows(run: Run) -> Mapping[tuple[int, str, int], tuple[Slot, Row]]:
    return {
        (index, slot.role, slot.position): (slot, run.rows[slot.index])
        for index, operator in enumerate(run.operators)
        for slot in operator.slots
    }


def _compare_sums(reference: Row, value: Row) -> float | None:
    """Return the difference of two tensors' sums relative to their size, or None if undefined."""
    if reference[3] != value[3]:
        return None
    size = max(reference[1], value[1])
    if not math.isfinite(size) or size == 0:
        return None
    gap = max(abs(reference[2] - value[2]), abs(reference[1] - value[1]))
    return gap / size


def find_missing_orders(
    operators: Sequence[OperatorFacts], edges: Sequence[tuple[int, int]]
) -> list[MissingOrder]:
    """Return reads of memory that no dependency orders behind its write.

    ``edges`` are source and target nodes in creation order.
    """
    if len({operator.stream for operator in operators if operator.node_count}) < 2:
        return []
    ancestors = _collect_ancestors(edges)
    result = []
    for index, operator in enumerate(operators):
        if operator.first_node is None:
            continue
        for tensor in operator.tensors:
            if tensor.writer is None or tensor.writer == index:
                continue
            writer = operators[tensor.writer]
            if writer.first_node is None or writer.stream == operator.stream:
                continue
            last = writer.first_node + writer.node_count - 1
            if not ancestors.get(operator.first_node, 0) >> last & 1:
                result.append(MissingOrder(index, tensor.writer, operator.first_node))
                break
    return result


def _collect_ancestors(edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the ancestors of each node as bits."""
    sources: dict[int, list[int]] = {}
    pending: dict[int, int] = {}
    targets: dict[int, list[int]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
        targets.setdefault(source, []).append(target)
        pending[target] = pending.get(target, 0) + 1
    ready = [node for node in targets if node not in pending]
    result = dict.fromkeys(ready, 0)
    while ready:
        node = ready.pop()
        for target in targets.get(node, ()):
            pending[target] -= 1
            if not pending[target]:
                bits = 0
                for source in sources[target]:
                    bits |= result[source] | 1 << source
                result[target] = bits
                ready.append(target)
    return result
