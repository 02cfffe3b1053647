"""The JSON documents, from their schemas: a table for each, and the objects that several share."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from graphviz_dash.app.documents.schemas import build_schema
from graphviz_dash.exports.documents.envelope import VERSIONS
from scripts.reference.docstrings import join_lines, shorten_by_type

Schema = dict[str, Any]

_PREFIX: Final = "#/$defs/"
_MEANINGS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("json_fields.toml").read_text(encoding="utf-8")
)
_UNITS: Final = {
    "Nanoseconds.": "ns",
    "Bytes.": "bytes",
    "A fraction of one.": "fraction",
    "A quotient of two values of one unit.": "ratio",
    "Text for people; its wording may change.": "text",
    "Path, relative if inside the current folder.": "path",
}
_INDENT: Final = "    "


_COMMANDS: Final = {"replay-check": "doctor --replays"}
"""Commands of documents with another name."""


def format_body() -> str:
    """The common fields, a section for each document, then the shared objects."""
    schemas = {name: build_schema(name) for name in VERSIONS}
    shared = _find_shared(schemas)
    definitions: dict[str, Schema] = {}
    parts = ["## Common fields\n", _format_common_fields()]
    for name, schema in schemas.items():
        definitions |= schema["$defs"]
        command = _COMMANDS.get(name, name)
        section = command.partition(" ")[0]
        parts.append(
            f"## {name}\n\nVersion {VERSIONS[name]}: "
            f"[`graphviz-dash {command} --json`](commands.md#{section}).\n"
        )
        parts.append(
            _format_fields(schema, f"{name.capitalize()}Document", schema["$defs"], shared)
        )
    parts.append("## Shared objects\n")
    for name in sorted(shared):
        text = join_lines(definitions[name].get("description"))
        parts.append(f"### {_get_title(name)}\n" + (f"\n{text}\n" if text else ""))
        parts.append(_format_fields(definitions[name], name, definitions, shared))
    return "\n".join(parts)


def _format_common_fields() -> str:
    rows = sorted(_MEANINGS["any"].items())
    return "\n".join(f"- `{name}`: {text}" for name, text in rows) + "\n"


def _find_shared(schemas: dict[str, Schema]) -> set[str]:
    """The definitions that are used in more than one place and differ in none."""
    users: dict[str, set[str]] = {}
    variants: dict[str, list[Schema]] = {}
    for document, schema in schemas.items():
        for name, content in schema["$defs"].items():
            if content not in variants.setdefault(name, []):
                variants[name].append(content)
        for user, content in {f"({document})": schema, **schema["$defs"]}.items():
            own_fields = {key: item for key, item in content.items() if key != "$defs"}
            for name, count in Counter(_list_references(own_fields)).items():
                users.setdefault(name, set()).update(f"{user} {number}" for number in range(count))
    return {name for name, places in users.items() if len(places) > 1 and len(variants[name]) == 1}


def _list_references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_PREFIX)
        for item in schema.values():
            yield from _list_references(item)
    elif isinstance(schema, list):
        for item in schema:
            yield from _list_references(item)


def _format_fields(
    schema: Schema, owner: str, definitions: dict[str, Schema], shared: set[str]
) -> str:
    lines = _list_lines(schema, owner, "", definitions, shared)
    return "\n".join(lines) + "\n"


def _list_lines(
    schema: Schema, owner: str, indent: str, definitions: dict[str, Schema], shared: set[str]
) -> Iterator[str]:
    """The fields of an object and of the objects in it that are not shared.

    Fields without a meaning are listed together by type.
    """
    plain: dict[str, list[str]] = {}
    field_lines: list[str] = []
    fields = schema.get("properties", {})
    for name, field in fields.items():
        is_envelope = not indent and name in ("schema", "version")
        if is_envelope or name.removesuffix("_reason") in fields.keys() - {name}:
            continue
        kind, inner, suffix = _format_type(field, definitions, shared)
        meaning = _get_meaning(owner, name, field, definitions.get(inner or "", {}))
        meaning = shorten_by_type(meaning, kind)
        label = f"`{name}{suffix}`"
        if inner is None and not meaning:
            plain.setdefault(kind, []).append(label)
            continue
        field_lines.append(
            f"{indent}- {label} {kind}".rstrip() + (f": {meaning}" if meaning else "")
        )
        if inner is not None:
            field_lines += _list_lines(
                definitions[inner], inner, indent + _INDENT, definitions, shared
            )
    for kind, labels in plain.items():
        yield f"{indent}- {', '.join(labels)}: {kind}"
    yield from field_lines


def _get_meaning(owner: str, name: str, field: Schema, inner: Schema) -> str:
    """The meaning of a field: as written for its object, or by its schema; not of common fields."""
    own_fields = _MEANINGS.get(owner) or _MEANINGS.get(owner.removesuffix("Document"), {})
    description = field.get("description", "")
    texts = (own_fields.get(name), description if description not in _UNITS else "")
    general = inner.get("description", "")
    return join_lines(next(filter(None, texts), general)).removesuffix(".")


def _format_type(  # noqa: PLR0911  # one return for each kind of schema
    field: Schema, definitions: dict[str, Schema], shared: set[str]
) -> tuple[str, str | None, str]:
    """A type in words, the object whose fields follow, and the suffix of the field's name."""
    if field.get("description") in _UNITS:
        return _UNITS[field["description"]], None, _format_plain_suffix(field)
    if "$ref" in field:
        name = field["$ref"].removeprefix(_PREFIX)
        if definitions[name].get("type") != "object":
            return _format_type(definitions[name], definitions, shared)
        if name in shared:
            return f"[{_get_title(name)}](#{_get_title(name).lower()})", None, ""
        return "", name, ""
    if "anyOf" in field:
        return _format_union(field["anyOf"], definitions, shared)
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"]), None, ""
    if "const" in field:
        return f"`{field['const']}`", None, ""
    if field.get("type") == "array":
        items = field.get("items") or {}
        if not items and "prefixItems" in field:
            kinds = [_format_type(item, definitions, shared)[0] for item in field["prefixItems"]]
            return f"[{', '.join(kinds)}]", None, ""
        kind, inner, suffix = _format_type(items, definitions, shared)
        return kind, inner, f"[]{suffix}"
    values = field.get("additionalProperties")
    if field.get("type") == "object" and isinstance(values, dict):
        kind, inner, suffix = _format_type(values, definitions, shared)
        return kind, inner, f"{{}}{suffix}"
    return field.get("type", "any"), None, ""


def _format_plain_suffix(field: Schema) -> str:
    return "?" if any(item.get("type") == "null" for item in field.get("anyOf", ())) else ""


def _format_union(
    options: list[Schema], definitions: dict[str, Schema], shared: set[str]
) -> tuple[str, str | None, str]:
    variants = [item for item in options if item.get("type") != "null"]
    results = [_format_type(item, definitions, shared) for item in variants]
    kinds = "/".join(dict.fromkeys(kind for kind, *_ in results))
    inner = next((item for _, item, _ in results if item is not None), None)
    suffix = max((way for *_, way in results), key=len)
    return kinds, inner, suffix + ("?" if len(variants) < len(options) else "")


def _get_title(name: str) -> str:
    """The heading of a shared object: ``FigureDocument`` as "Figure"."""
    return name.removesuffix("Document")


def find_unknown_meanings() -> set[str]:
    """Entries of json_fields.toml that no document has."""
    fields: dict[str, set[str]] = {"any": set()}
    for document in VERSIONS:
        schema = build_schema(document)
        for name, content in {
            f"{document.capitalize()}Document": schema,
            **schema["$defs"],
        }.items():
            names = set(content.get("properties", ()))
            fields["any"] |= names
            fields.setdefault(name.removesuffix("Document"), set()).update(names)
    return {
        f"{owner}.{name}"
        for owner, meanings in _MEANINGS.items()
        for name in meanings
        if name not in fields.get(owner.removesuffix("Document"), ())
    }
