"""Parser of torch's log ``cudagraphs``: partitions, recordings and skipped graphs.

Supports the messages of torch 2.6 to 2.13 and skips unknown ones.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from graphviz_dash.bundle.compile_log import RECORD_ERRORS, check_value, extract_skip_reason
from graphviz_dash.bundle.compile_stacks import Shorten, extract_stack_lines, shorten_paths
from graphviz_dash.model.compilation import (
    CompileWarning,
    GraphPartition,
    GraphSkip,
    MovedInput,
    Partitioning,
    Rerecording,
    SplitOperator,
)

LOG_SOURCE: Final = "log cudagraphs (TORCH_LOGS)"
"""Source of the facts of a :class:`CudagraphLog`."""

_PARTITION: Final = re.compile(
    r"^\s+Partition \d+: (?P<nodes>\d+) nodes, (?P<what>cudagraphable|non-cudagraphable), "
    r"inputs=(?P<inputs>\d+), outputs=(?P<outputs>\d+)"
)
_OPERATOR: Final = re.compile(r"^\s+(?P<name>\S+): reason=(?P<reason>[^,]*)(?P<rest>.*)$", re.S)
_MAX_STACK_LINES: Final = 400
_MAX_LINE_LENGTH: Final = 4_000
_MAX_NAME_LENGTH: Final = 1_000
_MAX_RERECORDING_LENGTH: Final = 20_000
_FX: Final = re.compile(r", fx=(?P<fx>[\w.:<>]+)")
_SKIP: Final = re.compile(r"^(?:skipping|disabling) cudagraphs? (?:due to )?(?P<reason>.*)$", re.S)
_FRAME: Final = re.compile(r"^\[(?P<frame>[^\]\s]+)\] ")
_RERECORDING: Final = re.compile(
    r"Re-recording function=(?P<function>\S+), (?:mode=\w+, )?reason=(?P<reason>.*)$", re.S
)
_MOVED: Final = re.compile(
    r"input name: (?P<name>\S+?)\. data pointer changed.*?"
    r"input stack trace: (?P<stack>.*?)(?=^input name: |\Z)",
    re.S | re.M,
)
_GRAPHS_DISABLED: Final = "partition includes all ops when cudagraphs is disabled"
_WARNING_PREFIXES: Final = ("CUDAGraph supports dynamic shapes", "Unable to hit fast path")
_MAX_REASON_LENGTH: Final = 300


class _Operator(Struct):
    """An operator while its traceback arrives, in one message per line."""

    operator: SplitOperator
    """Without its lines."""
    traceback: list[str] = field(default_factory=list)

    def build(self, shorten: Shorten) -> SplitOperator:
        lines = extract_stack_lines("\n".join(self.traceback), shorten)
        with suppress(*RECORD_ERRORS):
            return check_value(replace(self.operator, lines=lines), SplitOperator)
        return self.operator


class _Partition(Struct):
    """A partition while its operators arrive."""

    partition: GraphPartition
    """Without its operators."""
    operators: list[_Operator] = field(default_factory=list)

    def build(self, shorten: Shorten) -> GraphPartition:
        operators = tuple(operator.build(shorten) for operator in self.operators)
        return replace(self.partition, operators=operators)


class _Partitioning(Struct):
    """A partitioning while its partitions arrive."""

    frame: str | None
    partitions: list[_Partition] = field(default_factory=list)

    @property
    def has_cudagraphs(self) -> bool:
        return not any(
            operator.operator.reason.startswith(_GRAPHS_DISABLED)
            for partition in self.partitions
            for operator in partition.operators
        )

    def build(self, shorten: Shorten) -> Partitioning:
        partitions = tuple(partition.build(shorten) for partition in self.partitions)
        return Partitioning(self.frame, partitions)


class CudagraphLog:
    """Facts collected from messages.

    Args:
        shorten: Shortens a file path for the bundle.
    """

    def __init__(self, shorten: Shorten) -> None:
        self.skips: dict[GraphSkip, None] = {}
        """Distinct skips in the order of their first message."""
        self.rerecordings: list[Rerecording] = []
        self.warnings: Counter[str] = Counter()
        self.warmups: Counter[str] = Counter()
        """Warm-ups by compilation id."""
        self.recordings = 0
        """Number of recordings, including repeated ones."""
        self._shorten = shorten
        self._partitionings: list[_Partitioning] = []

    @property
    def has_partitionings(self) -> bool:
        """True if a message reports a partitioning."""
        return bool(self._partitionings)

    def process_message(self, text: str, frame: str | None) -> None:
        """Process one message, logged during ``frame``. Unexpected messages are skipped."""
        with suppress(*RECORD_ERRORS):
            self._process_message(text, frame)

    def _process_message(self, text: str, frame: str | None) -> None:
        frame_prefix = _FRAME.match(text)
        frame = frame_prefix["frame"] if frame_prefix else frame
        if text.startswith("Created ") and "graph partitions" in text:
            check_value(Partitioning(frame, ()), Partitioning)
            self._partitionings.append(_Partitioning(frame))
        elif partition := _PARTITION.match(text):
            self._add_partition(partition)
        elif text.startswith("         ") and "reason=" not in text:
            self._add_traceback_line(text)
        elif (operator := _OPERATOR.match(text)) and self._partitionings:
            self._add_operator(operator)
        elif skipped := _SKIP.match(text):
            self._add_skip(frame, skipped["reason"])
        elif rerecording := _RERECORDING.search(text):
            self._add_rerecording(frame, rerecording)
        elif "Running warmup function" in text:
            self.warmups[frame or ""] += 1
        elif "Recording function" in text:
            self.recordings += 1
        elif text.startswith(_WARNING_PREFIXES):
            title = text.strip().partition("\n")[0][:_MAX_REASON_LENGTH]
            self.warnings[check_value(title, str)] += 1

    def get_partitionings(self) -> tuple[Partitioning, ...]:
        """Return the partitionings, except for graphs that never use CUDA graphs."""
        return tuple(
            partitioning.build(self._shorten)
            for partitioning in self._partitionings
            if partitioning.has_cudagraphs
        )

    def get_warnings(self) -> tuple[CompileWarning, ...]:
        """Return the warnings with their counts."""
        return tuple(CompileWarning(text, (), times) for text, times in self.warnings.items())

    def _add_partition(self, match: re.Match[str]) -> None:
        if not self._partitionings:
            return
        partition = GraphPartition(
            nodes=int(match["nodes"]),
            inputs=int(match["inputs"]),
            outputs=int(match["outputs"]),
            captured=match["what"] == "cudagraphable",
            operators=(),
        )
        partition = check_value(partition, GraphPartition)
        self._partitionings[-1].partitions.append(_Partition(partition))

    def _add_operator(self, match: re.Match[str]) -> None:
        fx = _FX.search(match["rest"])
        operator = SplitOperator(
            match["name"][:_MAX_NAME_LENGTH],
            match["reason"].strip()[:_MAX_REASON_LENGTH],
            fx["fx"][:_MAX_NAME_LENGTH] if fx else None,
            (),
        )
        operator = check_value(operator, SplitOperator)
        if partitions := self._partitionings[-1].partitions:
            partitions[-1].operators.append(_Operator(operator))

    def _add_traceback_line(self, text: str) -> None:
        partitions = self._partitionings[-1].partitions if self._partitionings else []
        operators = partitions[-1].operators if partitions else []
        if operators and len(operators[-1].traceback) < _MAX_STACK_LINES:
            operators[-1].traceback.append(text[:_MAX_LINE_LENGTH])

    def _add_skip(self, frame: str | None, text: str) -> None:
        reason = extract_skip_reason(shorten_paths(text, self._shorten))
        skip = GraphSkip(frame, reason, extract_stack_lines(text, self._shorten))
        self.skips.setdefault(check_value(skip, GraphSkip))

    def _add_rerecording(self, frame: str | None, match: re.Match[str]) -> None:
        reason = match["reason"][:_MAX_RERECORDING_LENGTH].strip()
        moved = tuple(
            MovedInput(
                moved["name"], next(iter(extract_stack_lines(moved["stack"], self._shorten)), None)
            )
            for moved in _MOVED.finditer(reason)
        )
        title = reason.partition("\n")[0].rstrip(". ")[:_MAX_REASON_LENGTH]
        rerecording = Rerecording(frame, match["function"][:_MAX_NAME_LENGTH], title, moved)
        self.rerecordings.append(check_value(rerecording, Rerecording))
