"""Operators, runs and rows of the log as a check would record them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collectors.doctor.places import SourceLocation
from collectors.replays.compare import Row, Run
from collectors.replays.facts import OperatorFacts, Slot, TensorFacts

SHAPE = (4, 8)


def tensor(
    address: int = 0x7000_0000_0000,
    *,
    shape: tuple[int, ...] = SHAPE,
    device: str = "cuda",
    external: bool = False,
    writer: int | None = None,
    content: int | None = None,
) -> TensorFacts:
    return TensorFacts(address, shape, "float32", device, external, writer, content)


def operator(
    name: str = "aten::mul",
    *,
    tensors: Sequence[TensorFacts] = (),
    scalars: Sequence[str] = (),
    slots: Sequence[Slot] = (),
    line: int = 1,
    stream: int = 7,
    on_gpu: bool = True,
    random: bool = False,
    writes_cpu: bool = False,
    in_capture: bool = True,
    nodes: tuple[int, int] | None = None,
) -> OperatorFacts:
    return OperatorFacts(
        name=name,
        spot=SourceLocation("train.py", line, "step"),
        module="net.0",
        stream=stream,
        thread=None,
        tensors=tuple(tensors),
        scalars=tuple(scalars),
        on_gpu=on_gpu,
        random=random,
        writes_cpu=writes_cpu,
        in_capture=in_capture,
        slots=list(slots),
        first_node=nodes[0] if nodes else None,
        node_count=nodes[1] if nodes else 0,
    )


def output(index: int, *, dtype: str = "float32", shape: tuple[int, ...] = SHAPE) -> Slot:
    """A hashed result."""
    return Slot("output", 0, index, shape, dtype)


def source(index: int) -> Slot:
    """A hashed argument."""
    return Slot("input", 0, index, SHAPE, "float32")


def chain(*names: str) -> list[OperatorFacts]:
    """Operators with one hashed result each, in one stream."""
    return [
        operator(name, slots=[output(index)], line=index + 1, nodes=(2 * index, 1))
        for index, name in enumerate(names)
    ]


def row(value: int = 1, size: float = 100.0, total: float = 5.0, bad: int = 0) -> Row:
    return (value, size, total, bad)


def run(operators: Sequence[OperatorFacts], rows: Mapping[int, Row] | None = None) -> Run:
    """A run with equal rows except for those given."""
    count = sum(len(item.slots) for item in operators)
    changed = rows or {}
    return Run(operators, [changed.get(index, row(index + 1)) for index in range(count)])
