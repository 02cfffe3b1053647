"""What the server sends to the scripts of the components, as JavaScript: a type for each struct,
and the order of the fields of those that travel as arrays::

    python -m scripts.wire_types

writes the ``wire.js`` of each component anew.
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from graphviz_dash.features.graph.drawing.edges import EdgeList
from graphviz_dash.features.graph.drawing.repeat_card import RepeatCard
from graphviz_dash.features.graph.drawing.view import DagView
from graphviz_dash.features.graph.page.component.api import Drawing, Hits
from graphviz_dash.features.timeline.view.model import TimelineView
from graphviz_dash.features.timeline.view.ruler import Measured
from graphviz_dash.features.timeline.view.slice_card import SliceCard
from graphviz_dash.ui.components.component_data import (
    DagData,
    Palette,
    PerfettoData,
    ProgramData,
    TimelineData,
)
from graphviz_dash.ui.state.jobs import Standing

ROOT: Final = Path(__file__).parents[1] / "graphviz_dash"
COMMON: Final = "ui/components/common"
ANSWERS: Final[dict[str, tuple[type[msgspec.Struct], ...]]] = {
    "features/graph/page/component": (DagView, EdgeList, RepeatCard, Hits, Drawing, DagData),
    "features/timeline/page/component": (TimelineView, SliceCard, Measured, TimelineData),
    "features/perfetto/page/component": (PerfettoData,),
    "features/torch_compile/page/program": (ProgramData,),
    COMMON: (Standing, Palette),
}
"""By folder of a component the answers of its routes, and what its page hands it."""

_HEAD: Final = """\
// deno-fmt-ignore-file
// What the server answers and the page hands over, as the component's scripts know it. Written by
// `make docs` from the structs of routes and components: change those.
"""
_WIDTH: Final = 100
_ROWS: Final = "$rows.js"
"""Placeholder for the path from a component to rows.js."""
_SCALARS: Final = {int: "number", float: "number", str: "string", bool: "boolean", NoneType: "null"}


def script(folder: str) -> str:
    """Build the module that declares the answers of ``folder`` and every struct in them."""
    answers = ANSWERS[folder]
    rows = os.path.relpath(ROOT / COMMON / "rows.js", ROOT / folder)
    structs: dict[str, type[msgspec.Struct]] = {}
    for answer in answers:
        _collect(answer, structs)
    declarations = "\n".join([_HEAD, *(_declared(struct) for struct in structs.values())])
    return declarations.replace(_ROWS, rows if rows.startswith(".") else f"./{rows}")


def write() -> None:
    """Writes the module of each component."""
    for folder in ANSWERS:
        (ROOT / folder / "wire.js").write_text(script(folder), encoding="utf-8")


def _collect(annotation: object, structs: dict[str, type[msgspec.Struct]]) -> None:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        for field in msgspec.structs.fields(annotation):
            _collect(field.type, structs)
        structs[annotation.__name__] = annotation
    for argument in get_args(annotation):
        _collect(argument, structs)


def _declared(struct: type[msgspec.Struct]) -> str:
    name = struct.__name__
    docs = _field_docs(struct)
    optional = struct.__struct_config__.omit_defaults
    lines = [*_comment(inspect.cleandoc(struct.__doc__ or "")), f" * @typedef {{object}} {name}"]
    fields = msgspec.structs.fields(struct)
    for field in fields:
        shown = f"[{field.encode_name}]" if optional and not field.required else field.encode_name
        head = f"@property {{{_javascript(field.type)}}} {shown}"
        lines += _comment(f"{head} - {docs[field.name]}" if field.name in docs else head)
    text = "\n".join(["/**", *lines, " */"]) + "\n"
    if struct.__struct_config__.array_like:
        names = ", ".join(f'"{field.encode_name}"' for field in fields)
        const = _screaming(name)
        listed = textwrap.fill(
            names, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False
        )
        text += (
            f"\n/** The order in which the fields of a {name} travel. */\n"
            f"export const {const}_FIELDS = /** @type {{const}} */ ([\n{listed},\n]);\n"
        )
    return text


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=" * ", subsequent_indent=" *   ", break_on_hyphens=False
    )


def _screaming(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name)[1:].upper()


def _javascript(annotation: Any) -> str:
    """The type of ``annotation`` in TypeScript's terms."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return _named(annotation)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    inner = [_javascript(each) for each in arguments]
    forms = {
        list: f"({inner[0]})[]" if " | " in inner[0] else f"{inner[0]}[]",
        tuple: f"[{', '.join(inner)}]",
        dict: f"Record<{', '.join(inner)}>",
    }
    return forms[origin] if origin in forms else " | ".join(inner)


def _named(annotation: Any) -> str:
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if issubclass(annotation, Enum):
        return " | ".join(f'"{member.value}"' for member in annotation)
    if annotation.__struct_config__.array_like:
        return f"import('{_ROWS}').Row<{annotation.__name__}>"
    return str(annotation.__name__)


def _field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The literal under each field of a struct, by the field's name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for field, literal in zip(body.body, body.body[1:], strict=False):
        match field, literal:
            case (
                ast.AnnAssign(target=ast.Name(name)),
                ast.Expr(ast.Constant(str(text))),
            ):
                docs[name] = " ".join(text.split())
    return docs


if __name__ == "__main__":
    write()
