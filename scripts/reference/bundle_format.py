"""The run bundle format, from the registry of its parts and the records of the model."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from graphviz_dash.bundle import schema
from graphviz_dash.bundle.parts import JSON_PARTS, TRACE_PATHS, format_graph_path
from graphviz_dash.bundle.renamed_fields import RENAMED_FIELDS
from graphviz_dash.model import marks
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import FORMAT_VERSION, FileRole, Manifest
from scripts.reference.docstrings import (
    get_field_text,
    get_first_paragraph,
    join_lines,
    shorten_by_type,
)

_INDENT: Final = "    "
_AS_LIST: Final = "*List*"
_SCALARS: Final[dict[type[types.Type], str]] = {
    types.IntType: "integer",
    types.FloatType: "number",
    types.StrType: "string",
    types.BoolType: "boolean",
    types.AnyType: "any",
}
_MARKS: Final = {
    "STEP": "number of the step",
    "CAPTURE": "id of the graph",
    "MODULE": "path of the module",
    "SOURCE": "file:line",
}
_OPENING: Final = re.compile(r"^Content of [\w./-]+\.json(?:\.gz)?(?: of a run bundle)?(?:: |\.)")
_WITHOUT_VALUE: Final = re.compile(
    r" None if (?:unknown|unavailable|unnamed|undefined|not (?:measured|read|recorded|tried)"
    r"|not (?:counted|attempted|applicable|instantiated)|irrelevant"
    r"|there (?:is|was|are) none|it is none|none (?:did|was reported|was recorded)"
    r"|no \w+ (?:does|was reported))\.$"
)
_UNIT: Final = re.compile(r",? in (?:ns|bytes)\b(?=[.,:;]|$)")
_VERSION: Final = re.compile(r"^    (\d+): (.*(?:\n {7}.*)*)", re.M)


def list_chapters() -> list[tuple[str, str, Any]]:
    """Path, role and type of each file of a bundle; the manifest first."""
    chapter_list: list[tuple[str, str, Any]] = [(schema.MANIFEST_FILE, "", Manifest)]
    chapter_list.append((format_graph_path("ID"), "graph", CapturedGraph))
    return chapter_list + [(part.path, part.role.value, part.content_type) for part in JSON_PARTS]


def format_body() -> str:
    """Files with their fields, shared records and values, marks and history of the format."""
    overview = (
        f"This page describes format version {FORMAT_VERSION}. `NAME?` may be null if the value is "
        "unknown or does not apply, and missing in files of older versions. `NAME[]` is a list, "
        "and `NAME{}` maps names to values. An indented list shows the fields of an element. "
        "A field without a type or an indented list is an integer. *List* marks elements that are "
        "stored as lists of their fields.\n"
    )
    shared = _find_shared()
    parts = [overview, "## Files\n", _format_files()]
    for path, _, kind in list_chapters():
        record = _get_record(kind)
        # The first sentence is in the list of files.
        text = _describe_record(record).partition(". ")[2]
        parts += [f"## {path}\n", *([f"{text}\n"] if text else []), _format_fields(record, shared)]
    records = [info for info in shared.values() if isinstance(info, types.StructType)]
    parts.append("## Shared records\n")
    for info in records:
        parts += [f"### {info.cls.__name__}\n", _describe_record(info) + "\n"]
        parts.append(_format_fields(info, shared))
    parts.append("## Shared values\n")
    for info in shared.values():
        if isinstance(info, types.EnumType):
            text = get_first_paragraph(info.cls)
            parts.append(f"### {info.cls.__name__}\n\n{text}\n")
            parts += [*_list_values(info.cls, ""), ""]
    parts += ["## Marks in traces\n", _format_marks(), "## History\n", _format_history()]
    parts += ["### Fields renamed in version 8\n", _format_renamed_fields()]
    return "\n".join(parts)


def _find_shared() -> dict[type, types.StructType | types.EnumType]:
    """Records and enumerations that are used more than once or are one of several."""
    uses: Counter[type] = Counter()
    infos: dict[type, types.StructType | types.EnumType] = {}
    waiting: list[types.Type] = [_get_record(kind) for _, _, kind in list_chapters()]
    while waiting:
        current = waiting.pop(0)
        if isinstance(current, types.StructType | types.EnumType):
            uses[current.cls] += 1
            if current.cls in infos:
                continue
            infos[current.cls] = current
        if isinstance(current, types.StructType):
            waiting += [field.type for field in current.fields]
        inner = _list_inner_types(current)
        if sum(isinstance(item, types.StructType) for item in inner) > 1:
            uses.update(item.cls for item in inner if isinstance(item, types.StructType))
        waiting += inner
    return {kind: info for kind, info in infos.items() if uses[kind] > 1}


def _get_record(kind: Any) -> types.StructType:
    info = types.type_info(kind)
    record = info.item_type if isinstance(info, types.VarTupleType) else info
    assert isinstance(record, types.StructType)
    return record


_TRACE_EVENTS: Final = {
    FileRole.REPLAY_TRACE: ", as torch.profiler wrote it",
    FileRole.CAPTURE_TRACE: (
        ". The collector keeps the events that attribute captured nodes, with their text"
    ),
}


def _format_files() -> str:
    lines = [
        f"- [`{path}`](#{_get_anchor(path)})" + (f" (`{role}`)" if role else "") + _describe(kind)
        for path, role, kind in list_chapters()
    ]
    lines += [
        f"- `{path}` (`{role.value}`): Kineto trace{_TRACE_EVENTS[role]}"
        for role, path in TRACE_PATHS.items()
    ]
    lines.append(
        "- `traces/capture-N.json.gz` (`capture-trace`): Kineto trace of a further capture"
    )
    return "\n".join(lines) + "\n"


def _get_anchor(path: str) -> str:
    return re.sub(r"[^\w-]", "", path.lower())


def _describe(kind: Any) -> str:
    """Describe a part by its record's docstring; empty if that repeats the name."""
    text = _shorten_record_text(_get_record(kind).cls).partition(". ")[0]
    return f": {text.removesuffix('.')}" if text else ""


def _shorten_record_text(kind: type) -> str:
    text = _replace_none(_OPENING.sub("", get_first_paragraph(kind))).strip()
    return text[:1].upper() + text[1:]


def _replace_none(text: str) -> str:
    return text.replace(". None ", ". Null ").replace("None", "null")


def _describe_record(info: types.StructType) -> str:
    text = _shorten_record_text(info.cls)
    if info.array_like:
        text += f" {_AS_LIST}."
    if info.tag is not None:
        text += f" `{info.tag_field}` is `{info.tag}`."
    return text.strip()


def _list_inner_types(info: types.Type) -> list[types.Type]:
    if isinstance(info, types.Metadata):
        return [info.type]
    if isinstance(info, types.UnionType):
        return list(info.types)
    if isinstance(info, types.CollectionType):
        return [info.item_type]
    if isinstance(info, types.TupleType):
        return list(info.item_types)
    if isinstance(info, types.DictType):
        return [info.key_type, info.value_type]
    return []


def _format_fields(info: types.StructType, shared: Collection[type]) -> str:
    return "\n".join(_list_lines(info, "", shared)) + "\n"


def _list_lines(info: types.StructType, indent: str, shared: Collection[type]) -> Iterator[str]:
    """Lines of fields and nested records; undocumented ones of a type share one."""
    plain: dict[str, list[str]] = {}
    for field in info.fields:
        kind, suffix, inner = _format_type(field.type, shared)
        if not field.required and not suffix.endswith("?"):
            suffix += "?"
        label = f"`{field.encode_name}{suffix}`"
        meaning = format_meaning(info.cls, field.name, inner)
        meaning = shorten_by_type(meaning, kind)
        if not meaning and inner is None and not info.array_like:
            plain.setdefault(kind, []).append(label)
            continue
        type_text = "" if kind == "integer" else kind
        yield f"{indent}- {label} {type_text}".rstrip() + (f": {meaning}" if meaning else "")
        if isinstance(inner, types.StructType):
            yield from _list_lines(inner, indent + _INDENT, shared)
        elif inner is not None:
            yield from _list_values(inner.cls, indent + _INDENT)
    for kind, labels in plain.items():
        yield f"{indent}- {', '.join(labels)}: {kind}"


def format_meaning(record: type, field: str, inner: types.Type | None = None) -> str:
    """The text of a field without the facts that its name, its type and the page's start give."""
    text = _WITHOUT_VALUE.sub("", _UNIT.sub("", get_field_text(record, field)))
    text = _replace_none(text).strip()
    if isinstance(inner, types.StructType):
        first, _, rest = _describe_record(inner).partition(". ")
        text = f"{text} {rest}" if text else f"{first}. {rest}"
    elif isinstance(inner, types.EnumType):
        text = text or get_first_paragraph(inner.cls)
    return text.strip().removesuffix(".")


def _format_type(  # noqa: PLR0911  # one return for each kind of type
    info: types.Type, shared: Collection[type]
) -> tuple[str, str, types.StructType | types.EnumType | None]:
    """A type in words, the suffix of the field's name, and the record or values that follow."""
    if isinstance(info, types.Metadata):
        return _format_type(info.type, shared)
    if isinstance(info, types.StructType | types.EnumType):
        if info.cls in shared:
            return f"[{info.cls.__name__}](#{info.cls.__name__.lower()})", "", None
        if isinstance(info, types.EnumType) and not _has_documented_values(info.cls):
            return "/".join(f"`{member.value}`" for member in info.cls), "", None
        return "", "", info
    if isinstance(info, types.LiteralType):
        return "/".join(f"`{value}`" for value in info.values), "", None
    if isinstance(info, types.UnionType):
        variants = [item for item in info.types if not isinstance(item, types.NoneType)]
        results = [_format_type(item, shared) for item in variants]
        kinds = "/".join(dict.fromkeys(kind for kind, *_ in results))
        suffix = results[0][1] + ("?" if len(variants) < len(info.types) else "")
        return kinds, suffix, results[0][2]
    if isinstance(info, types.CollectionType):
        kind, suffix, inner = _format_type(info.item_type, shared)
        return kind, f"[]{suffix}", inner
    if isinstance(info, types.TupleType):
        kinds = [_format_type(item, shared)[0] for item in info.item_types]
        return f"[{', '.join(kinds)}]", "", None
    if isinstance(info, types.DictType):
        kind, suffix, inner = _format_type(info.value_type, shared)
        return kind, f"{{}}{suffix}", inner
    return _SCALARS[type(info)], "", None


def _has_documented_values(kind: type[Enum]) -> bool:
    return any(get_field_text(kind, member.name) for member in kind)


def _list_values(kind: type[Enum], indent: str) -> Iterator[str]:
    """A line for each documented value, then one for the others."""
    rows = [(f"`{member.value}`", get_field_text(kind, member.name)) for member in kind]
    for value, text in rows:
        if text:
            yield f"{indent}- {value}: {text.removesuffix('.')}"
    plain = ", ".join(value for value, text in rows if not text)
    if plain:
        yield f"{indent}- {plain}"


def _format_marks() -> str:
    lines = [
        f"- `{getattr(marks, name)}<{text}>`: {_get_mark_text(name)}"
        for name, text in _MARKS.items()
    ]
    return "\n".join(lines) + "\n"


def _get_mark_text(name: str) -> str:
    """The docstring below a constant of the module of marks."""
    after = inspect.getsource(marks).split(f"\n{name} = ", 1)[1]
    return join_lines(after.split('"""', 2)[1])


def _format_history() -> str:
    """The versions, newest first, from the docstring of the schema's module."""
    versions = _VERSION.findall(schema.__doc__ or "")
    return (
        "\n".join(f"- {version}: {join_lines(text)}" for version, text in reversed(versions)) + "\n"
    )


def _format_renamed_fields() -> str:
    """The new name of each field of earlier versions, by record."""
    record_types = list_records()
    return "\n".join(
        f"- {record.__name__}: "
        + ", ".join(f"`{old_name}`→`{name}`" for old_name, name in names.items())
        for record, names in RENAMED_FIELDS.items()
        if record in record_types
    )


def list_records() -> set[type]:
    """The records on this page."""
    record_types: set[type] = set()
    waiting: list[types.Type] = [types.type_info(kind) for _, _, kind in list_chapters()]
    while waiting:
        current = waiting.pop()
        if isinstance(current, types.StructType) and current.cls not in record_types:
            record_types.add(current.cls)
            waiting += [field.type for field in current.fields]
        waiting += _list_inner_types(current)
    return record_types


def list_fields(kind: type) -> list[str]:
    """The names of a record's fields in the file."""
    return [field.encode_name for field in msgspec.structs.fields(kind)]
