"""JSON schemas of the documents, made of the types that their builders return.

A program may rely on what a schema requires; further fields may come without a new version, so that
schemas allow them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from graphviz_dash.app.compare.documents.comparison import ComparisonDocument
from graphviz_dash.app.compare.documents.run import SingleRunDocument
from graphviz_dash.app.documents.imports import ImportDocument
from graphviz_dash.app.documents.listing import ListingDocument
from graphviz_dash.exports.documents.envelope import VERSIONS
from graphviz_dash.features.doctor.document import DoctorDocument
from graphviz_dash.features.gate.document import GateDocument
from graphviz_dash.features.graph.diff_document import GraphPairDocument
from graphviz_dash.features.ladder.document import LadderDocument
from graphviz_dash.features.launch.document import LaunchDocument
from graphviz_dash.features.memory.document import MemoryDocument
from graphviz_dash.features.prediction.document import PredictionDocument
from graphviz_dash.features.ranks.fleet_document import FleetDocument
from graphviz_dash.features.torch_compile.document import CompileDocument

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

_CONTENTS: Final[dict[str, type]] = {
    "compare": ComparisonDocument,
    "compile": CompileDocument,
    "diff": GraphPairDocument,
    "doctor": DoctorDocument,
    "fleet": FleetDocument,
    "gate": GateDocument,
    "import": ImportDocument,
    "ladder": LadderDocument,
    "launch": LaunchDocument,
    "ls": ListingDocument,
    "memory": MemoryDocument,
    "predict": PredictionDocument,
    "show": SingleRunDocument,
}


def document_schema(name: str) -> dict[str, Any]:
    """The JSON schema of the document that the command ``name`` prints (KeyError: it has none)."""
    (reference,), components = msgspec.json.schema_components(
        (_CONTENTS[name],), ref_template="#/$defs/{name}"
    )
    content = components.pop(reference["$ref"].rpartition("/")[2])
    own = {
        "schema": {"const": f"graphviz-dash/{name}"},
        "version": {"const": VERSIONS[name]},
    }
    return {
        "$schema": _DRAFT,
        "title": f"graphviz-dash/{name}, version {VERSIONS[name]}",
        "description": content["description"],
        "type": "object",
        "properties": own | content["properties"],
        "required": [*own, *content["required"]],
        "$defs": dict(sorted(components.items())),
    }
