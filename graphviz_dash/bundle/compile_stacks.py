"""Lines of a program in the texts of torch.compile's logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from graphviz_dash.model.compilation import UserLine

Shorten: TypeAlias = Callable[[str], str]
"""From the path of a file to what a bundle holds of it."""

_FRAME: Final = re.compile(
    r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[^\n]+))?'
    r"(?:\n(?!\s*File )(?P<code>[^\n]*\S[^\n]*))?",
    re.M,
)
_NOT_CODE: Final = re.compile(r"^[\s~^|]*$")
_RESUMED: Final = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")
_TORCH: Final = re.compile(
    r"(^|/)(site|dist)-packages/torch/|(^|/)c[a-z0-9]{51}\.py$|^<(?!stdin|ipython)|"
    r"/lib/python3\.\d+/(?!(site|dist)-packages/)|"
    r"(^|/)(collectors|graphviz_dash)/(?!workloads/)[a-z_]+/[a-z_]+\.py$"
)
_PACKAGES: Final = re.compile(r"^.*/(?:site|dist)-packages/")
_PATH: Final = re.compile(r"(?<![\w.])/[^\s\"':]*\.py\b")
_MOST: Final = 12
_LONGEST: Final = 300


def user_function(name: str) -> tuple[str, int | None]:
    """The name of a function without what Dynamo puts before that of a rest, and the line behind
    which the rest goes on; None where it is a whole function."""
    resumed = _RESUMED.match(name)
    if resumed is None:
        return name, None
    inner, _ = user_function(resumed["name"])
    return inner, int(resumed["line"])


def is_users(file: str) -> bool:
    """Whether a file is the program's or a library's, and not torch's, Python's or ours."""
    return _TORCH.search(file) is None


def shorter(file: str) -> str:
    """A path of another machine without its folders: from a package's on, or only its name."""
    inside = _PACKAGES.sub("", file)
    return inside if inside != file else file.rsplit("/", 1)[-1]


def without_folders(text: str, shorten: Shorten) -> str:
    """``text`` with every path of a Python file in it shortened."""
    return _PATH.sub(lambda path: shorten(path[0]), text)


def stack_lines(text: str, shorten: Shorten) -> tuple[UserLine, ...]:
    """The program's lines in the tracebacks of ``text``, innermost first, each once."""
    lines = list(_lines(text, shorten))
    lines.reverse()
    return tuple(dict.fromkeys(lines))[:_MOST]


def user_line(
    file: str, line: int, function: str | None, code: str | None, shorten: Shorten
) -> UserLine:
    """A line as bundles hold it."""
    name = None if function is None else user_function(function.strip())[0]
    text = None if code is None or _NOT_CODE.match(code) else code.strip()[:_LONGEST]
    return UserLine(shorten(file), max(line, 0), name, text)


def _lines(text: str, shorten: Shorten) -> Iterator[UserLine]:
    for frame in _FRAME.finditer(text):
        if is_users(frame["file"]):
            yield user_line(
                frame["file"], int(frame["line"]), frame["function"], frame["code"], shorten
            )
