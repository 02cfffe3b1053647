"""The run bundle format, from the registry of its parts and the records of the model."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from graphviz_dash.bundle import schema
from graphviz_dash.bundle.parts import JSON_PARTS, TRACE_PATHS, format_graph_path
from graphviz_dash.model import marks
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import FORMAT_VERSION, Manifest
from scripts.reference.tables import get_field_text, get_first_paragraph, join_lines

Field = tuple[str, str, str]
"""Name, type and meaning, as printed."""
_COMMON: Final = 3
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
_OPENING: Final = re.compile(r"^Content of [\w./-]+\.json(?:\.gz)?(?:: |\.)")
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
    """Files, records, values, marks and history of the format."""
    record_types: set[type] = set()
    values: dict[type[Enum], None] = {}
    overview = (
        f"This page describes format version {FORMAT_VERSION}. `NAME?` may be null if the value is "
        "unknown or does not apply, and missing in files of older versions. `X[]` is a list, and "
        "`{X}` maps names to values. Fields that end in `_ns` and `_bytes` are integers.\n"
    )
    common = _find_common_fields()
    lines = sorted(_format_field_line(*row) for row in common)
    parts = [overview, "## Files\n", _format_files(), "## Common fields\n", *lines, ""]
    for path, _, kind in list_chapters():
        parts.append(f"## {path}\n")
        parts += [
            _format_record(info, common) for info in _list_new_records(kind, record_types, values)
        ]
    parts += ["## Values\n", *(_format_enumeration(kind) for kind in values)]
    parts += ["## Marks in traces\n", _format_marks(), "## History\n", _format_history()]
    return "\n".join(parts)


def _find_common_fields() -> set[Field]:
    """Fields that at least three records have, if no record leaves their name undocumented."""
    record_types: set[type] = set()
    counts: Counter[Field] = Counter()
    for _, _, kind in list_chapters():
        for info in _list_new_records(kind, record_types, {}):
            counts.update(_read_field(info.cls, field) for field in info.fields)
    common = {row for row, count in counts.items() if count >= _COMMON and row[2]}
    labels = Counter(label for label, *_ in common)
    labels.update(label for label, _, meaning in counts if not meaning)
    return {row for row in common if labels[row[0]] == 1}


def _format_files() -> str:
    lines = [
        f"- [`{path}`](#{_get_anchor(path)})" + (f" (`{role}`)" if role else "") + _describe(kind)
        for path, role, kind in list_chapters()
    ]
    lines += [
        f"- `{path}` (`{role.value}`): Kineto trace, as torch.profiler wrote it"
        for role, path in TRACE_PATHS.items()
    ]
    lines.append(
        "- `traces/capture-N.json.gz` (`capture-trace`): Kineto trace of a further capture"
    )
    return "\n".join(lines) + "\n"


def _get_anchor(path: str) -> str:
    return re.sub(r"[^\w-]", "", path.lower())


def _describe(kind: Any) -> str:
    """One sentence on a part, from the docstring of its record; empty if it repeats the name."""
    info = types.type_info(kind)
    record = info.item_type if isinstance(info, types.VarTupleType) else info
    assert isinstance(record, types.StructType)
    text = _shorten_record_text(record.cls)
    return f": {text.removesuffix('.')}" if text else ""


def _shorten_record_text(kind: type) -> str:
    text = _OPENING.sub("", get_first_paragraph(kind)).replace("None", "null").strip()
    return text[:1].upper() + text[1:]


def _list_new_records(
    kind: Any, record_types: set[type], values: dict[type[Enum], None]
) -> Iterator[types.StructType]:
    """Each record that ``kind`` reaches and no earlier chapter described."""
    waiting: list[types.Type] = [types.type_info(kind)]
    while waiting:
        current = waiting.pop(0)
        if isinstance(current, types.EnumType):
            values.setdefault(current.cls)
        elif isinstance(current, types.StructType):
            if current.cls not in record_types:
                record_types.add(current.cls)
                yield current
                waiting += [field.type for field in current.fields]
        else:
            waiting += _list_inner_types(current)


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


def _format_record(info: types.StructType, common: set[Field]) -> str:
    """A section with a line for each field; others of one type share a line."""
    text = _shorten_record_text(info.cls)
    if info.array_like:
        text += " Stored as a list in this order."
    if info.tag is not None:
        text += f" `{info.tag_field}` is `{info.tag}`."
    rows = [_read_field(info.cls, field) for field in info.fields]
    plain: dict[str, list[str]] = {}
    lines = []
    for row in rows:
        label, kind, meaning = row
        if info.array_like or (meaning and row not in common):
            lines.append(_format_field_line(*row))
        else:
            plain.setdefault(kind or "integer", []).append(label)
    lines += [f"- {', '.join(labels)}: {kind}" for kind, labels in plain.items()]
    parts = [f"### {info.cls.__name__}", text.strip(), "\n".join(lines)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _read_field(record: type, field: types.Field) -> Field:
    kind = _format_type(field.type)
    is_optional = kind.endswith("?") or not field.required
    kind = kind.removesuffix("?")
    if kind == "integer" and field.encode_name.endswith(("_ns", "_bytes")):
        kind = ""
    label = f"`{field.encode_name}{'?' if is_optional else ''}`"
    return label, kind, _shorten_meaning(get_field_text(record, field.name))


def _format_field_line(label: str, kind: str, meaning: str) -> str:
    return f"- {label} {kind}".rstrip() + (f": {meaning}" if meaning else "")


def _shorten_meaning(text: str) -> str:
    """The text of a field without the facts that its name, its type and the page's start give."""
    text = _WITHOUT_VALUE.sub("", _UNIT.sub("", text))
    return text.replace(". None ", ". Null ").replace("None", "null").strip().removesuffix(".")


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
    parts = [f"### {kind.__name__}", get_first_paragraph(kind)]
    lines = [f"- {value}: {text.removesuffix('.')}" for value, text in rows if text]
    plain = ", ".join(value for value, text in rows if not text)
    parts.append("\n".join([*lines, f"- {plain}"] if lines and plain else [*lines, plain]).strip())
    parts = list(filter(None, parts))
    return "\n\n".join(parts) + "\n"


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


def list_records() -> set[type]:
    """The records on this page."""
    record_types: set[type] = set()
    for _, _, kind in list_chapters():
        list(_list_new_records(kind, record_types, {}))
    return record_types


def list_fields(kind: type) -> list[str]:
    """The names of a record's fields in the file."""
    return [field.encode_name for field in msgspec.structs.fields(kind)]
