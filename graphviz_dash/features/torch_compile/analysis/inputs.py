"""Program names of compiled graph inputs, and the lines that first use them.

Inductor numbers inputs (``arg0_1``, ``primals_3``); Dynamo names them by origin
(``L_self_modules_head_parameters_weight_``).
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
_ALIAS_ASSIGNMENT: Final = re.compile(r"^\s*(\w+) = (\w+)\s*(?:;.*)?$")
_VIEW: Final = re.compile(
    r"^\s*(\w+)(?:: \"[^\"]*\")? = (\w+)(?:\[|\."
    r"(?:view|reshape|narrow|select|unsqueeze|squeeze|detach|transpose|t|data)\b)"
)
_WRITE: Final = re.compile(
    r"\b(?P<own>(?!torch\b)\w+)\.(?!_)\w*[a-z]_\("
    r"|\b(?P<element>\w+)\[[^=\n]*\] = "
    r"|\b(?P<left>\w+) (?:\+|-|\*|/|//|%|\*\*|&|\||\^|<<|>>|@)= "
    r"|\btorch\.[\w.]*_\(\[?(?P<given>\w+)"
    r"|\bout ?= ?(?P<out>\w+)"
)
"""In-place methods and functions, item and augmented assignments, ``out`` arguments."""

_MODULE_PREFIXES: Final = ("L_self_", "l_self_", "L_fn_", "l_fn_")
_ANNOTATION: Final = re.compile(r"\"[^\"]*\"|'[^']*'")


class InputOrigin(Struct, frozen=True):
    """Origin of an input."""

    name: str
    """Dynamo's name, or Inductor's if Dynamo's graph is unknown."""
    line: UserLine | None
    """Line of the first use; None if unknown."""


def find_input_origin(frame: CompiledFrame | None, name: str, line: UserLine | None) -> InputOrigin:
    """Find the origin of an input; ``line`` comes from torch."""
    code, numbered = _get_code(frame), _NUMBERED.match(name)
    if numbered is not None:
        index = int(numbered["arg"]) if numbered["arg"] is not None else int(numbered["primal"]) - 1
        names = _parse_inputs(code)
        if not 0 <= index < len(names):
            return InputOrigin(name, line)
        name = names[index]
    return InputOrigin(name, line or _find_first_use(code, name))


def find_first_cpu_use(frame: CompiledFrame | None) -> UserLine | None:
    """Find the line that first uses an input on the CPU; None if none does."""
    code = _get_code(frame)
    signature = _SIGNATURE.search(code)
    names = _CPU_INPUT.findall(signature["inputs"] if signature else "")
    return next(filter(None, (_find_first_use(code, name) for name in names)), None)


def find_first_write(frame: CompiledFrame | None, names: Sequence[str] = ()) -> UserLine | None:
    """Find the line that first writes to an input.

    Checks ``names`` (Dynamo's or Inductor's), or all inputs except parameters and buffers.
    """
    code = _get_code(frame)
    origins = [find_input_origin(frame, name, None).name for name in names]
    inputs = _parse_inputs(code)
    targets = origins or [name for name in inputs if not name.startswith(_MODULE_PREFIXES)]
    aliases = dict.fromkeys(targets)
    for text, line in _iter_statements(code):
        renamed = _ALIAS_ASSIGNMENT.match(text)
        if renamed and renamed[2] in aliases:
            aliases[renamed[1]] = None
        elif (view := _VIEW.match(text)) and view[2] in aliases:
            aliases[view[1]] = None
        if any(match[match.lastgroup or 0] in aliases for match in _WRITE.finditer(text)):
            return line
    return None


def find_first_call(frame: CompiledFrame | None, pattern: re.Pattern[str]) -> UserLine | None:
    """Find the line of the first matching statement of Dynamo's graph."""
    statements = _iter_statements(_get_code(frame))
    return next((line for text, line in statements if pattern.search(text)), None)


def find_node_line(frame: CompiledFrame | None, name: str) -> UserLine | None:
    """Find the line of a node of Dynamo's graph; None if there is no such node."""
    return find_first_call(frame, re.compile(rf"^\s*{re.escape(name)}(?:: \"[^\"]*\")? = "))


def get_call_lines(frame: CompiledFrame | None) -> tuple[UserLine, ...]:
    """Return the calling lines, innermost first; the function's own lines if unknown."""
    return () if frame is None else frame.callers or get_frame_lines(frame)


def get_frame_lines(frame: CompiledFrame | None) -> tuple[UserLine, ...]:
    """Return the lines at which a compilation starts, innermost first."""
    if frame is None:
        return ()
    place = (
        ()
        if frame.location is None or frame.location.file.startswith("torch/")
        else (frame.location,)
    )
    return (*place, *frame.callers)


def _get_code(frame: CompiledFrame | None) -> str:
    """Return the code of Dynamo's graph; empty if not recorded."""
    return (frame and frame.code) or ""


def _parse_inputs(code: str) -> list[str]:
    signature = _SIGNATURE.search(code)
    if signature is None:
        return []
    text = _ANNOTATION.sub("", signature["inputs"])
    return [part["name"] for part in _INPUT.finditer(text)]


def _find_first_use(code: str, name: str) -> UserLine | None:
    """Find the first statement that uses ``name`` or an alias."""
    names = {name}
    for text, line in _iter_statements(code):
        renamed = _ALIAS_ASSIGNMENT.match(text)
        if renamed and renamed[2] in names:
            names.add(renamed[1])
        elif line is not None and names & set(re.findall(r"\b\w+\b", text)):
            return line
    return None


def _iter_statements(code: str) -> Iterator[tuple[str, UserLine | None]]:
    """Yield the statements of Dynamo's graph, with the line of the preceding comment."""
    line: UserLine | None = None
    for text in code.partition("):\n")[2].splitlines():
        comment = _COMMENT.match(text)
        if comment:
            line = UserLine(
                comment["file"], int(comment["line"]), comment["function"], comment["code"]
            )
        else:
            yield text.partition("#")[0], line
