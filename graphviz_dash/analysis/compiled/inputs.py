"""What the inputs of compiled graphs are called in the program, and the line that first uses them.

Inductor numbers inputs (``arg0_1``, ``primals_3``) in the order in which Dynamo's graph has them;
Dynamo names them by where they come from (``L_self_modules_head_parameters_weight_``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from graphviz_dash.model.compilation import CompiledFrame, UserLine

_NUMBERED: Final = re.compile(r"^(?:arg(?P<arg>\d+)_1|primals_(?P<primal>\d+))$")
_SIGNATURE: Final = re.compile(r"def forward\(self,?(?P<inputs>.*?)\):?\s*$", re.S | re.M)
_INPUT: Final = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\s*(?::|,|\)|$)")
_COMMENT: Final = re.compile(
    r"^\s*# File: (?P<file>\S+):(?P<line>\d+) in (?P<function>[^,\n]+)"
    r"(?:, code: (?P<code>[^\n]*))?$"
)
_CPU_INPUT: Final = re.compile(r"\b(\w+): \"[^\"]*cpu\"")
_ANNOTATION: Final = re.compile(r"\"[^\"]*\"|'[^']*'")


@dataclass(frozen=True)
class InputOrigin:
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
    line: UserLine | None = None
    body = code.partition("):\n")[2].splitlines()
    for text in body:
        comment = _COMMENT.match(text)
        if comment:
            line = UserLine(
                comment["file"], int(comment["line"]), comment["function"], comment["code"]
            )
            continue
        renamed = re.match(r"^\s*(\w+) = (\w+)\s*(?:;.*)?$", text)
        if renamed and renamed[2] in names:
            names.add(renamed[1])
        elif line is not None and names & set(re.findall(r"\b\w+\b", text.partition("#")[0])):
            return line
    return None
