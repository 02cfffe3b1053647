"""Errors of the cudagraph trees that end a step: violated rule and line.

Inductor's generated code has no program line. Its comments in the traceback name nodes of Dynamo's
graph, which have lines. If the call raised nothing, the first synchronizing operator is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.inputs import (
    find_first_call,
    find_node_line,
    get_call_lines,
)
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import Compilation, CompiledFrame, UserLine
from graphviz_dash.model.compile_rules import CompileRuleId
from graphviz_dash.model.run import Failure

_RULES: Final = (
    ("output of CUDAGraphs that has been overwritten", CompileRuleId.OVERWRITTEN_OUTPUT),
    ("accessing gradient tensor output of CUDAGraphs", CompileRuleId.OVERWRITTEN_OUTPUT),
    ("during capture", CompileRuleId.CAPTURE_FAILED),
    ("when stream is capturing", CompileRuleId.CAPTURE_FAILED),
    ("cudaErrorStreamCapture", CompileRuleId.CAPTURE_FAILED),
)
"""Messages of torch 2.6 to 2.13, either of the first cause or of the error that follows."""

_FRAME: Final = re.compile(r'^ *File "(?P<file>[^"\n]+)", line \d+, in (?P<function>\S+)$', re.M)
_RESUMED: Final = re.compile(r"^(?:torch_dynamo_resume_in_)+(.+?)(?:_at_\d+)+$")
_SOURCE_NODES: Final = re.compile(r"Source Nodes: \[(?P<names>[^\]]*)\]")
_RAISING_LINE: Final = "this line made the call that raised the error"
_SYNCHRONIZING_OPERATOR: Final = "the first operator of the graph that is known to synchronize"
_SYNCHRONIZING: Final = re.compile(
    r"\b(?:\w*nonzero|unique\w*|masked_select|bincount|repeat_interleave|linalg_\w+|svd\w*|item"
    r"|tolist)\("
)


def find_fatal_causes(
    failures: Iterable[Failure], compilation: Compilation
) -> Iterator[CompileCause]:
    """Find the causes of errors that ended a run."""
    for failure in failures:
        rule = _find_rule(failure)
        if rule is None:
            continue
        failed = None
        if rule is CompileRuleId.CAPTURE_FAILED:
            failed = _find_failed_operator(failure, compilation.frames)
        yield CompileCause(
            rule=rule,
            reason=failure.message.partition("\n")[0][:300],
            lines=(failed.line, *get_call_lines(failed.frame))
            if failed
            else _parse_location(failure.location),
            frames=(failed.frame.id,) if failed else (),
            count=1,
            gain_ns=Missing(Fact.SAVING, "the error ended the run"),
            one_time_ns=None,
            details=(failed.method,) if failed else (),
        )


def _find_rule(failure: Failure) -> CompileRuleId | None:
    """Return the violated rule, or None for a failure unrelated to the cudagraph trees."""
    texts = (failure.message, failure.traceback)
    return next((rule for text in texts for message, rule in _RULES if message in text), None)


class _FailedOperator(Struct, frozen=True):
    """Operator that failed a recording."""

    frame: CompiledFrame
    line: UserLine
    method: str


def _find_failed_operator(
    failure: Failure, frames: Sequence[CompiledFrame]
) -> _FailedOperator | None:
    """Find the operator that failed a recording, in the innermost compilation on the stack."""
    on_stack = {
        (match["file"], _RESUMED.sub(r"\1", match["function"])): match.start()
        for match in _FRAME.finditer(failure.traceback)
    }
    innermost = [
        (on_stack[place.file, frame.function], frame)
        for frame in frames
        if (place := frame.location) is not None and (place.file, frame.function) in on_stack
    ]
    candidates = [frame for _, frame in sorted(innermost, key=lambda entry: -entry[0])]
    node_lists = _SOURCE_NODES.findall(failure.traceback)
    for frame in candidates:
        for name in reversed(node_lists[-1].split(", ") if node_lists else []):
            line = find_node_line(frame, name)
            if line is not None:
                return _FailedOperator(frame, line, _RAISING_LINE)
    for frame in candidates:
        line = find_first_call(frame, _SYNCHRONIZING)
        if line is not None:
            return _FailedOperator(frame, line, _SYNCHRONIZING_OPERATOR)
    return None


def _parse_location(text: str | None) -> tuple[UserLine, ...]:
    """Parse ``file:line``."""
    file, _, line = (text or "").rpartition(":")
    return (UserLine(file, int(line)),) if file and line.isdecimal() else ()
