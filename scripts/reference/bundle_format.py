"""The run bundle format, from the registry of its parts and the records of the model."""

from __future__ import annotations

import inspect
import re
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from graphviz_dash.bundle import schema
from graphviz_dash.bundle.parts import JSON_PARTS, TRACE_PATHS, format_graph_path
from graphviz_dash.bundle.renamed_fields import RENAMED_FIELDS
from graphviz_dash.model import marks
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import FORMAT_VERSION, Manifest
from scripts.reference.tables import format_table, get_field_text, get_first_paragraph, join_lines

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
_VERSION: Final = re.compile(r"^    (\d+): (.*(?:\n {7}.*)*)", re.M)


def list_chapters() -> list[tuple[str, str, Any]]:
    """Path, role and type of each file of a bundle; the manifest first."""
    chapter_list: list[tuple[str, str, Any]] = [(schema.MANIFEST_FILE, "", Manifest)]
    chapter_list.append((format_graph_path("ID"), "graph", CapturedGraph))
    return chapter_list + [(part.path, part.role.value, part.content_type) for part in JSON_PARTS]


def format_body() -> str:
    """Files, records, values, marks and history of the format."""
    record_types: set[type] = set()
    values: dict[type[Enum], None] = {}
    overview = (
        f"This page describes format version {FORMAT_VERSION}. `X?` may be null, `X[]` is a list, "
        "and `{X}` maps names to values. Files of older versions lack optional fields.\n"
    )
    parts = [overview, "## Files\n", _format_files()]
    for path, _, kind in list_chapters():
        parts.append(f"## {path}\n")
        parts += _format_records(types.type_info(kind), record_types, values)
    parts += ["## Values\n", *(_format_enumeration(kind) for kind in values)]
    parts += ["## Marks in traces\n", _format_marks(), "## History\n", _format_history()]
    parts += ["### Fields renamed in version 8\n", _format_renamed_fields(record_types)]
    return "\n".join(parts)


def _format_files() -> str:
    rows = [
        (
            f"[`{path}`](#{_get_anchor(path)})",
            f"`{role}`" if role else "",
            _describe(kind),
        )
        for path, role, kind in list_chapters()
    ]
    rows += [
        (f"`{path}`", f"`{role.value}`", "Kineto trace, as torch.profiler wrote it.")
        for role, path in TRACE_PATHS.items()
    ]
    rows.append(
        ("`traces/capture-N.json.gz`", "`capture-trace`", "Kineto trace of a further capture.")
    )
    return format_table(("file", "role", "content"), rows)


def _get_anchor(path: str) -> str:
    return re.sub(r"[^\w-]", "", path.lower())


def _describe(kind: Any) -> str:
    """One sentence on a part, from the docstring of its record."""
    info = types.type_info(kind)
    record = info.item_type if isinstance(info, types.VarTupleType) else info
    assert isinstance(record, types.StructType)
    sentence = get_first_paragraph(record.cls)
    return re.sub(r"^[\w./-]+\.json(\.gz)?: ", "", sentence)


def _format_records(
    info: types.Type, record_types: set[type], values: dict[type[Enum], None]
) -> list[str]:
    """A section for each record that ``info`` reaches and no earlier chapter described."""
    parts: list[str] = []
    waiting = [info]
    while waiting:
        current = waiting.pop(0)
        if isinstance(current, types.EnumType):
            values.setdefault(current.cls)
        elif isinstance(current, types.StructType):
            if current.cls not in record_types:
                record_types.add(current.cls)
                parts.append(_format_record(current))
                waiting += [field.type for field in current.fields]
        else:
            waiting += _list_inner_types(current)
    return parts


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


def _format_record(info: types.StructType) -> str:
    text = get_first_paragraph(info.cls)
    if info.array_like:
        text += " Stored as a list of its fields, in this order."
    rows = [
        (
            f"`{field.encode_name}`",
            _format_type(field.type) + ("" if field.required else ", optional"),
            get_field_text(info.cls, field.name),
        )
        for field in info.fields
    ]
    if info.tag is not None:
        rows.insert(0, (f"`{info.tag_field}`", f"`{info.tag}`", "Kind of this record."))
    heading = f"### {info.cls.__name__}\n\n{text}\n\n"
    return heading + (format_table(("field", "type", "meaning"), rows) if rows else "")


def _format_type(info: types.Type) -> str:  # noqa: PLR0911  # one return for each kind of type
    """A type in words; records and enumerations are links."""
    if isinstance(info, types.Metadata):
        return _format_type(info.type)
    if isinstance(info, types.StructType | types.EnumType):
        return f"[{info.cls.__name__}](#{info.cls.__name__.lower()})"
    if isinstance(info, types.LiteralType):
        return "/".join(f"`{value}`" for value in info.values)
    if isinstance(info, types.UnionType):
        texts = [_format_type(item) for item in info.types if not isinstance(item, types.NoneType)]
        return "/".join(texts) + ("?" if len(texts) < len(info.types) else "")
    if isinstance(info, types.CollectionType):
        return f"{_format_type(info.item_type)}[]"
    if isinstance(info, types.TupleType):
        return f"[{', '.join(_format_type(item) for item in info.item_types)}]"
    if isinstance(info, types.DictType):
        return f"{{{_format_type(info.value_type)}}}"
    return _SCALARS[type(info)]


def _format_enumeration(kind: type[Enum]) -> str:
    rows = [(f"`{member.value}`", get_field_text(kind, member.name)) for member in kind]
    heading = f"### {kind.__name__}\n\n{get_first_paragraph(kind)}\n\n"
    if any(text for _, text in rows):
        return heading + format_table(("value", "meaning"), rows)
    return heading + ", ".join(value for value, _ in rows) + ".\n"


def _format_marks() -> str:
    rows = [
        (f"`{getattr(marks, name)}<{text}>`", _get_mark_text(name)) for name, text in _MARKS.items()
    ]
    return format_table(("name of the range", "meaning"), rows)


def _get_mark_text(name: str) -> str:
    """The docstring below a constant of the module of marks."""
    after = inspect.getsource(marks).split(f"\n{name} = ", 1)[1]
    return join_lines(after.split('"""', 2)[1])


def _format_history() -> str:
    """The versions, newest first, from the docstring of the schema's module."""
    versions = _VERSION.findall(schema.__doc__ or "")
    rows = [(version, join_lines(text)) for version, text in reversed(versions)]
    return format_table(("version", "change"), rows)


def _format_renamed_fields(record_types: set[type]) -> str:
    """The new name of each field of earlier versions, by record."""
    rows = [
        (record.__name__, f"`{earlier}`", f"`{present}`")
        for record, names in RENAMED_FIELDS.items()
        if record in record_types
        for earlier, present in names.items()
    ]
    return format_table(("record", "version 7", "version 8"), rows)


def list_records() -> set[type]:
    """The records on this page."""
    record_types: set[type] = set()
    for _, _, kind in list_chapters():
        _format_records(types.type_info(kind), record_types, {})
    return record_types


def list_fields(kind: type) -> list[str]:
    """The names of a record's fields in the file."""
    return [field.encode_name for field in msgspec.structs.fields(kind)]
