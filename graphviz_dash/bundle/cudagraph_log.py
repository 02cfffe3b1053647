"""Parser of torch's log ``cudagraphs``: partitions, recordings and skipped graphs.

Supports the messages of torch 2.6 to 2.13 and skips unknown ones.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import msgspec

from graphviz_dash.bundle.compile_log import extract_skip_reason
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


class CudagraphLog:
    """Facts collected from messages.

    Args:
        shorten: Shortens a file path for the bundle.
    """

    def __init__(self, shorten: Shorten) -> None:
        self.partitionings: list[Partitioning] = []
        self.skips: list[GraphSkip] = []
        self.rerecordings: list[Rerecording] = []
        self.warnings: Counter[str] = Counter()
        self.warmups: Counter[str] = Counter()
        """Warm-ups by compilation id."""
        self.recordings = 0
        """Number of recordings, including repeated ones."""
        self._shorten = shorten
        self._stack: list[str] = []

    def process_message(self, text: str, frame: str | None) -> None:
        """Process one message, logged during ``frame``."""
        frame_prefix = _FRAME.match(text)
        frame = frame_prefix["frame"] if frame_prefix else frame
        if text.startswith("Created ") and "graph partitions" in text:
            self.partitionings.append(Partitioning(frame, ()))
        elif partition := _PARTITION.match(text):
            self._add_partition(partition)
        elif text.startswith("         ") and "reason=" not in text:
            self._add_traceback_line(text)
        elif (operator := _OPERATOR.match(text)) and self.partitionings:
            self._process_operator(operator)
        elif skipped := _SKIP.match(text):
            self._add_skip(frame, skipped["reason"])
        elif rerecording := _RERECORDING.search(text):
            self._add_rerecording(frame, rerecording)
        elif "Running warmup function" in text:
            self.warmups[frame or ""] += 1
        elif "Recording function" in text:
            self.recordings += 1
        elif text.startswith(_WARNING_PREFIXES):
            self.warnings[text.strip().partition("\n")[0][:_MAX_REASON_LENGTH]] += 1

    def get_partitionings(self) -> tuple[Partitioning, ...]:
        """Return the partitionings, except for graphs that never use CUDA graphs."""
        return tuple(
            split
            for split in self.partitionings
            if not any(
                operator.reason.startswith(_GRAPHS_DISABLED)
                for partition in split.partitions
                for operator in partition.operators
            )
        )

    def get_warnings(self) -> tuple[CompileWarning, ...]:
        """Return the warnings with their counts."""
        return tuple(CompileWarning(text, (), times) for text, times in self.warnings.items())

    def _add_partition(self, match: re.Match[str]) -> None:
        if not self.partitionings:
            return
        partition = GraphPartition(
            nodes=int(match["nodes"]),
            inputs=int(match["inputs"]),
            outputs=int(match["outputs"]),
            captured=match["what"] == "cudagraphable",
            operators=(),
        )
        last = self.partitionings[-1]
        self._replace_last((*last.partitions, partition))

    def _process_operator(self, match: re.Match[str]) -> None:
        self._stack = []
        fx = _FX.search(match["rest"])
        self._add_operator(
            SplitOperator(
                match["name"],
                match["reason"].strip()[:_MAX_REASON_LENGTH],
                fx["fx"] if fx else None,
                (),
            )
        )

    def _add_traceback_line(self, text: str) -> None:
        partitions = self.partitionings[-1].partitions if self.partitionings else ()
        if not partitions or not partitions[-1].operators:
            return
        if len(self._stack) >= _MAX_STACK_LINES:
            return
        self._stack.append(text)
        *previous, last = partitions[-1].operators
        lines = extract_stack_lines("\n".join(self._stack), self._shorten)
        updated_operator = msgspec.structs.replace(last, lines=lines)
        updated_partition = msgspec.structs.replace(
            partitions[-1], operators=(*previous, updated_operator)
        )
        self._replace_last((*partitions[:-1], updated_partition))

    def _add_operator(self, operator: SplitOperator) -> None:
        partitions = self.partitionings[-1].partitions
        if partitions:
            operators = (*partitions[-1].operators, operator)
            updated_partition = msgspec.structs.replace(partitions[-1], operators=operators)
            self._replace_last((*partitions[:-1], updated_partition))

    def _replace_last(self, partitions: tuple[GraphPartition, ...]) -> None:
        self.partitionings[-1] = msgspec.structs.replace(
            self.partitionings[-1], partitions=partitions
        )

    def _add_skip(self, frame: str | None, text: str) -> None:
        reason = extract_skip_reason(shorten_paths(text, self._shorten))
        skip = GraphSkip(frame, reason, extract_stack_lines(text, self._shorten))
        if skip not in self.skips:
            self.skips.append(skip)

    def _add_rerecording(self, frame: str | None, match: re.Match[str]) -> None:
        reason = match["reason"][:_MAX_RERECORDING_LENGTH].strip()
        moved = tuple(
            MovedInput(
                moved["name"], next(iter(extract_stack_lines(moved["stack"], self._shorten)), None)
            )
            for moved in _MOVED.finditer(reason)
        )
        title = reason.partition("\n")[0].rstrip(". ")[:_MAX_REASON_LENGTH]
        self.rerecordings.append(Rerecording(frame, match["function"], title, moved))
