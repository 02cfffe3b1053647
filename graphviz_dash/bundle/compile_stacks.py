"""Extraction of program lines from torch.compile's logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from graphviz_dash.model.compilation import UserLine

Shorten: TypeAlias = Callable[[str], str]

_FRAME: Final = re.compile(
    r'^[ \t]*File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[^\n]+))?'
    r"(?:\n(?!\s*File )(?P<code>[^\n]*\S[^\n]*))?",
    re.M,
)
_NOT_CODE: Final = re.compile(r"^[\s~^|]*$")
_CONTINUATION_NAME: Final = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")
_EXCLUDED_FILE: Final = re.compile(
    r"(^|/)(site|dist)-packages/torch/|(^|/)c[a-z0-9]{51}\.py$|^<(?!stdin|ipython)|"
    r"/lib/python3\.\d+/(?!(site|dist)-packages/)|"
    r"(^|/)(collectors|graphviz_dash)/(?!workloads/)[a-z_]+/[a-z_]+\.py$"
)
_PACKAGES: Final = re.compile(r"^.*/(?:site|dist)-packages/")
_PATH: Final = re.compile(r"(?<![\w.])/[^\s\"':]*")
_PYTHON_END: Final = re.compile(r"\.py\b")
_MAX_LINES: Final = 12
_MAX_NAME_LENGTH: Final = 1_000
_MAX_CODE_LENGTH: Final = 300


def parse_function_name(name: str) -> tuple[str, int | None]:
    """Return a function's name without Dynamo's prefix, and the line after which it resumes, or
    None for a complete function."""
    resumed = _CONTINUATION_NAME.match(name[:_MAX_NAME_LENGTH])
    if resumed is None:
        return name, None
    original, _ = parse_function_name(resumed["name"])
    return original, int(resumed["line"])


def is_user_file(file: str) -> bool:
    """Return False for files of torch, Python or this package."""
    return _EXCLUDED_FILE.search(file) is None


def strip_folders(file: str) -> str:
    """Strip the folders from a path, up to the package or the file name."""
    relative = _PACKAGES.sub("", file)
    return relative if relative != file else file.rsplit("/", 1)[-1]


def shorten_paths(text: str, shorten: Shorten) -> str:
    """Shorten all paths of Python files in ``text``."""

    def shorten_match(path: re.Match[str]) -> str:
        ends = [match.end() for match in _PYTHON_END.finditer(path[0])]
        if not ends:
            return path[0]
        return shorten(path[0][: ends[-1]]) + path[0][ends[-1] :]

    return _PATH.sub(shorten_match, text)


def extract_stack_lines(text: str, shorten: Shorten) -> tuple[UserLine, ...]:
    """Return the distinct program lines in tracebacks, innermost first."""
    lines = list(_iter_stack_lines(text, shorten))
    lines.reverse()
    return tuple(dict.fromkeys(lines))[:_MAX_LINES]


def build_user_line(
    file: str, line: int, function: str | None, code: str | None, shorten: Shorten
) -> UserLine:
    """Build a line with shortened path, function and code."""
    name = None if function is None else parse_function_name(function.strip())[0]
    text = None if code is None or _NOT_CODE.match(code) else code.strip()[:_MAX_CODE_LENGTH]
    return UserLine(shorten(file), max(line, 0), name, text)


def _iter_stack_lines(text: str, shorten: Shorten) -> Iterator[UserLine]:
    for frame in _FRAME.finditer(text):
        if is_user_file(frame["file"]):
            yield build_user_line(
                frame["file"], int(frame["line"]), frame["function"], frame["code"], shorten
            )
