"""Texts and names of a file: docstrings, comments, visible strings, prose, identifiers."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Name", "Text", "read_bindings", "read_names", "read_texts", "split_name"]

_MARKUP: Final = re.compile(r"`+[^`]*`+|:\w+:")
_JS_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", re.DOTALL)
_JS_STRING: Final = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|`([^`]*)`")
_TAG: Final = re.compile(r"@\w+|\{[^}]*\}|^\s*\*", re.MULTILINE)
_LEAST_SPACES: Final = 2
"""Spaces that make a string a text for readers."""


class Text(NamedTuple):
    """A piece of English."""

    line: int
    """First line, from 1."""
    kind: str
    """``docstring``, ``comment``, ``string`` or ``prose``."""
    text: str
    """The words, without markup."""


class Name(NamedTuple):
    """A name that a file defines."""

    line: int
    """Line of the definition, from 1."""
    kind: str
    """``function``, ``class`` or ``value``."""
    name: str
    """The identifier."""


def read_texts(path: Path) -> list[Text]:
    """Read the English of a Python, JavaScript or Markdown file.

    Raises:
        SyntaxError: a Python file does not parse.
    """
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [*_read_python_strings(source), *_read_python_comments(source)]
    if path.suffix == ".js":
        return list(_read_javascript(source))
    return list(_read_markdown(source))


def read_names(path: Path) -> list[Name]:
    """Read the names that a Python file defines: functions, classes, parameters and fields."""
    return list(_list_names(ast.parse(path.read_text(encoding="utf-8"))))


def read_bindings(path: Path) -> Iterator[str]:
    """Read every name that a Python file binds, attributes and lambda parameters included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("__"):
                    yield name
            case ast.arg(arg=name) if name not in {"self", "cls"}:
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def split_name(name: str) -> list[str]:
    """Split an identifier into lower-case words."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)
    return [part.lower() for part in parts]


def _list_names(tree: ast.Module) -> Iterator[Name]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
            is_value = "property" in decorators or ".setter" in decorators
            if not node.name.startswith("__"):
                yield Name(node.lineno, "value" if is_value else "function", node.name)
            arguments = node.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield Name(argument.lineno, "value", argument.arg)
        elif isinstance(node, ast.ClassDef):
            yield Name(node.lineno, "class", node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Name(node.lineno, "value", node.id)


def _read_python_strings(source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    seen: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            match child:
                case ast.Expr(ast.Constant(str(text)) as constant):
                    seen.add(id(constant))
                    yield Text(child.lineno, "docstring", _MARKUP.sub("code", text))
        if isinstance(node, ast.JoinedStr):
            parts = [v.value if isinstance(v, ast.Constant) else "X" for v in node.values]
            seen.update(id(value) for value in node.values)
            yield from _visible(node.lineno, "".join(map(str, parts)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
            yield from _visible(node.lineno, node.value)


def _visible(line: int, text: str) -> Iterator[Text]:
    if text.count(" ") >= _LEAST_SPACES and re.search(r"[a-z]{3}", text):
        yield Text(line, "string", text)


def _read_python_comments(source: str) -> Iterator[Text]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("#!", "# type:")):
            yield Text(token.start[0], "comment", _MARKUP.sub("code", token.string.lstrip("# ")))


def _read_javascript(source: str) -> Iterator[Text]:
    for match in _JS_COMMENT.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        words = _MARKUP.sub("code", _TAG.sub(" ", match.group().strip("/*")))
        yield Text(line, "comment", words)
    rest = _JS_COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)
    for match in _JS_STRING.finditer(rest):
        line = rest.count("\n", 0, match.start()) + 1
        yield from _visible(line, next(group for group in match.groups() if group is not None))


def _read_markdown(source: str) -> Iterator[Text]:
    blank = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
    text = blank.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = _MARKUP.sub(lambda match: "code" + "\n" * match.group().count("\n"), text)
    line = 1
    for paragraph in re.split(r"(\n\s*\n|\n(?=\s*[-*|#] |\s*\d+\. ))", text):
        if paragraph.strip():
            words = re.sub(r"[*_|#]+", " ", paragraph)
            yield Text(line + len(paragraph) - len(paragraph.lstrip("\n")), "prose", words)
        line += paragraph.count("\n")
