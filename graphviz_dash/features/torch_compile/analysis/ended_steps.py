"""Errors of the cudagraph trees that end a step: the rule that it breaks, and the line.

An error amid a recording comes from code that Inductor wrote, which has no line of the program. Its
comments name the nodes of Dynamo's graph that the failed call was made from, and the failure keeps
them with its traceback; Dynamo's graph has their lines. Where the call itself raised nothing (the
capture was found broken at its end), the first operator that is known to synchronise is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.inputs import (
    call_lines,
    first_call,
    line_of_node,
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
"""What torch 2.6 to 2.13 say; the first cause may say it, or the error that follows from it."""

_FRAME: Final = re.compile(r'^ *File "(?P<file>[^"\n]+)", line \d+, in (?P<function>\S+)$', re.M)
_RESUMED: Final = re.compile(r"^(?:torch_dynamo_resume_in_)+(.+?)(?:_at_\d+)+$")
_SOURCE_NODES: Final = re.compile(r"Source Nodes: \[(?P<names>[^\]]*)\]")
_RAISED: Final = "the call that raised was made from this line"
_KNOWN: Final = "the first operator of the graph that is known to synchronise"
_SYNCHRONISES: Final = re.compile(
    r"\b(?:\w*nonzero|unique\w*|masked_select|bincount|repeat_interleave|linalg_\w+|svd\w*|item"
    r"|tolist)\("
)


def ended_step_causes(
    failures: Iterable[Failure], compilation: Compilation
) -> Iterator[CompileCause]:
    """The causes that the errors are which ended a run."""
    for failure in failures:
        rule = _rule(failure)
        if rule is None:
            continue
        failed = None
        if rule is CompileRuleId.CAPTURE_FAILED:
            failed = _failed_operator(failure, compilation.frames)
        yield CompileCause(
            rule=rule,
            reason=failure.message.partition("\n")[0][:300],
            lines=(failed.line, *call_lines(failed.frame))
            if failed
            else _location(failure.location),
            frames=(failed.frame.id,) if failed else (),
            times=1,
            saves_ns=Missing(Fact.SAVING, "it ended the run"),
            once_ns=None,
            details=(failed.method,) if failed else (),
        )


def _rule(failure: Failure) -> CompileRuleId | None:
    """The rule that a failure broke; None where it has nothing to do with the trees."""
    texts = (failure.message, failure.traceback)
    return next((rule for text in texts for said, rule in _RULES if said in text), None)


class _FailedOperator(Struct, frozen=True):
    """The operator that failed a recording."""

    frame: CompiledFrame
    line: UserLine
    method: str


def _failed_operator(failure: Failure, frames: Sequence[CompiledFrame]) -> _FailedOperator | None:
    """The operator that failed a recording, in the innermost compilation on the failure's stack."""
    on_stack = {
        (match["file"], _RESUMED.sub(r"\1", match["function"])): match.start()
        for match in _FRAME.finditer(failure.traceback)
    }
    innermost = [
        (on_stack[begin.file, frame.function], frame)
        for frame in frames
        if (begin := frame.place) is not None and (begin.file, frame.function) in on_stack
    ]
    inside = [frame for _, frame in sorted(innermost, key=lambda each: -each[0])]
    named = _SOURCE_NODES.findall(failure.traceback)
    for frame in inside:
        for name in reversed(named[-1].split(", ") if named else []):
            line = line_of_node(frame, name)
            if line is not None:
                return _FailedOperator(frame, line, _RAISED)
    for frame in inside:
        line = first_call(frame, _SYNCHRONISES)
        if line is not None:
            return _FailedOperator(frame, line, _KNOWN)
    return None


def _location(text: str | None) -> tuple[UserLine, ...]:
    """``file:line`` as a line."""
    file, _, line = (text or "").rpartition(":")
    return (UserLine(file, int(line)),) if file and line.isdecimal() else ()
