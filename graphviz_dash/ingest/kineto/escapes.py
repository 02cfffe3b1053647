"""JSON text with backslashes that escape nothing, such as paths that old torch writes on Windows.

In a string with an invalid escape, all backslashes are characters unless they precede a quote, a
backslash, a slash or the four digits of a code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_INVALID: Final = re.compile(r'\\(?:["\\/bfnrt]|u[\da-fA-F]{4})|(\\)(?=.)', re.DOTALL)
_BACKSLASH: Final = re.compile(r'(\\(?:["\\/]|u[\da-fA-F]{4}))|\\', re.DOTALL)


def decode_text(text: str, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Decode JSON, accepting control characters, NaN, Infinity and unescaped backslashes. Raises
    ValueError for other text."""
    try:
        return json.loads(text, strict=False, parse_float=parse_float)
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Invalid \\"):
            raise
    return json.loads(escape_backslashes(text), strict=False, parse_float=parse_float)


def escape_backslashes(text: str) -> str:
    """Escape the backslashes of strings with an invalid escape."""
    return _replace_in_strings(text, lambda match: match[1] or "\\\\", _BACKSLASH)


def hide_invalid_escapes(text: str) -> str:
    """Replace the backslash of each invalid escape by a slash, keeping positions."""
    if "\\" not in text:
        return text
    return _replace_in_strings(text, lambda match: "/" if match[1] else match[0], _INVALID)


def _replace_in_strings(
    text: str, replace: Callable[[re.Match[str]], str], pattern: re.Pattern[str]
) -> str:
    def replace_string(string: re.Match[str]) -> str:
        value = string[0]
        if "\\" not in value or not any(match[1] for match in _INVALID.finditer(value)):
            return value
        return pattern.sub(replace, value)

    return _STRING.sub(replace_string, text)
