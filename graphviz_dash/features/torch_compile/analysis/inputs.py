"""What the inputs of compiled graphs are called in the program, and the line that first uses them.

Inductor numbers inputs (``arg0_1``, ``primals_3``) in the order in which Dynamo's graph has them;
Dynamo names them by where they come from (``L_self_modules_head_parameters_weight_``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from graphviz_dash.model.compilation import CompiledFrame, UserLine

_NUMBERED: Final = re.compile(r"^(?:arg(?P<arg>\d+)_1|primals_(?P<primal>\d+))$")
_SIGNATURE: Final = re.compile(r"def forward\(self,?(?P<inputs>.*?)\):?\s*$", re.S | re.M)
_INPUT: Final = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\s*(?::|,|\)|$)")
_COMMENT: Final = re.compile(
    r"^\s*# File: (?P<file>\S+):(?P<line>\d+) in (?P<function>[^,\n]+)"
    r"(?:, code: (?P<code>[^\n]*))?$"
)
DEVICE_CALLS: Final = re.compile(r"\.(?:cpu|cuda|to)\(|\bdevice ?=")
"""Statements of Dynamo's graph that may copy between devices."""

_CPU_INPUT: Final = re.compile(r"\b(\w+): \"[^\"]*cpu\"")
_RENAMED: Final = re.compile(r"^\s*(\w+) = (\w+)\s*(?:;.*)?$")
_VIEW: Final = re.compile(
    r"^\s*(\w+)(?:: \"[^\"]*\")? = (\w+)(?:\[|\."
    r"(?:view|reshape|narrow|select|unsqueeze|squeeze|detach|transpose|t|data)\b)"
)
_WRITTEN: Final = re.compile(
    r"\b(?P<own>(?!torch\b)\w+)\.(?!_)\w*[a-z]_\("
    r"|\b(?P<element>\w+)\[[^=\n]*\] = "
    r"|\b(?P<left>\w+) (?:\+|-|\*|/|//|%|\*\*|&|\||\^|<<|>>|@)= "
    r"|\btorch\.[\w.]*_\(\[?(?P<given>\w+)"
    r"|\bout ?= ?(?P<out>\w+)"
)
"""An in-place method, an element that is set, an operator that writes to its left side, an in-place
function, an output that is given."""

_OF_MODULES: Final = ("L_self_", "l_self_", "L_fn_", "l_fn_")
_ANNOTATION: Final = re.compile(r"\"[^\"]*\"|'[^']*'")


class InputOrigin(Struct, frozen=True):
    """Where an input comes from."""

    name: str
    """Dynamo's name of it, or the number where Dynamo's graph is not known."""
    line: UserLine | None
    """The line that first uses it; None where it is not known."""


def input_origin(frame: CompiledFrame | None, name: str, line: UserLine | None) -> InputOrigin:
    """The origin of the input ``name`` of a graph of ``frame``; ``line`` is what torch told."""
    if frame is None or frame.code is None:
        return InputOrigin(name, line)
    numbered = _NUMBERED.match(name)
    if numbered is None:
        return InputOrigin(name, line or _first_use(frame.code, name))
    index = int(numbered["arg"]) if numbered["arg"] is not None else int(numbered["primal"]) - 1
    names = _inputs(frame.code)
    if not 0 <= index < len(names):
        return InputOrigin(name, line)
    return InputOrigin(names[index], line or _first_use(frame.code, names[index]))


def first_cpu_use(frame: CompiledFrame | None) -> UserLine | None:
    """The line that first uses an input which lies on the CPU; None where there is none."""
    if frame is None or frame.code is None:
        return None
    signature = _SIGNATURE.search(frame.code)
    for name in _CPU_INPUT.findall(signature["inputs"] if signature else ""):
        line = _first_use(frame.code, name)
        if line is not None:
            return line
    return None


def first_write(frame: CompiledFrame | None, names: Sequence[str] = ()) -> UserLine | None:
    """The line that first writes to an input of Dynamo's graph: to one of ``names`` (Dynamo's or
    Inductor's), or, where none are given, to any that is no parameter or buffer of a module."""
    if frame is None or frame.code is None:
        return None
    origins = [input_origin(frame, name, None).name for name in names]
    inputs = _inputs(frame.code)
    written = origins or [name for name in inputs if not name.startswith(_OF_MODULES)]
    same = dict.fromkeys(written)
    for text, line in _statements(frame.code):
        renamed = _RENAMED.match(text)
        if renamed and renamed[2] in same:
            same[renamed[1]] = None
        elif (view := _VIEW.match(text)) and view[2] in same:
            same[view[1]] = None
        if any(match[match.lastgroup or 0] in same for match in _WRITTEN.finditer(text)):
            return line
    return None


def first_call(frame: CompiledFrame | None, pattern: re.Pattern[str]) -> UserLine | None:
    """The line of the first statement of Dynamo's graph that ``pattern`` is in."""
    if frame is None or frame.code is None:
        return None
    return next((line for text, line in _statements(frame.code) if pattern.search(text)), None)


def line_of_node(frame: CompiledFrame | None, name: str) -> UserLine | None:
    """The line of the node ``name`` of Dynamo's graph; None where it has none of that name."""
    return first_call(frame, re.compile(rf"^\s*{re.escape(name)}(?:: \"[^\"]*\")? = "))


def call_lines(frame: CompiledFrame | None) -> tuple[UserLine, ...]:
    """The program's lines that call a compiled function, innermost first; where it is not known who
    calls it, the function's own."""
    return () if frame is None else frame.callers or frame_lines(frame)


def frame_lines(frame: CompiledFrame | None) -> tuple[UserLine, ...]:
    """The program's lines at which a compilation begins, innermost first."""
    if frame is None:
        return ()
    own = () if frame.place is None or frame.place.file.startswith("torch/") else (frame.place,)
    return (*own, *frame.callers)


def _inputs(code: str) -> list[str]:
    signature = _SIGNATURE.search(code)
    if signature is None:
        return []
    text = _ANNOTATION.sub("", signature["inputs"])
    return [part["name"] for part in _INPUT.finditer(text)]


def _first_use(code: str, name: str) -> UserLine | None:
    """The line of the comment before the first statement that uses ``name``, or what is only
    another name of it."""
    names = {name}
    for text, line in _statements(code):
        renamed = _RENAMED.match(text)
        if renamed and renamed[2] in names:
            names.add(renamed[1])
        elif line is not None and names & set(re.findall(r"\b\w+\b", text)):
            return line
    return None


def _statements(code: str) -> Iterator[tuple[str, UserLine | None]]:
    """The statements of Dynamo's graph, each with the line of the comment before it."""
    line: UserLine | None = None
    for text in code.partition("):\n")[2].splitlines():
        comment = _COMMENT.match(text)
        if comment:
            line = UserLine(
                comment["file"], int(comment["line"]), comment["function"], comment["code"]
            )
        else:
            yield text.partition("#")[0], line
