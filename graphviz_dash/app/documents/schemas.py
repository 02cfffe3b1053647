"""Generate JSON schemas of the documents from the return types of their builders.

Programs may rely on required fields. Schemas allow further fields, which may be added without a new
version.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from graphviz_dash.app.compare.documents.comparison import ComparisonDocument
from graphviz_dash.app.compare.documents.run import SingleRunDocument
from graphviz_dash.app.documents.imports import ImportDocument
from graphviz_dash.app.documents.listing import ListingDocument
from graphviz_dash.exports.documents.envelope import VERSIONS
from graphviz_dash.exports.documents.values import describe_number_type
from graphviz_dash.features.doctor.document import DoctorDocument
from graphviz_dash.features.doctor.replay_document import ReplayCheckDocument
from graphviz_dash.features.efficiency.document import EfficiencyDocument
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
    "efficiency": EfficiencyDocument,
    "fleet": FleetDocument,
    "gate": GateDocument,
    "import": ImportDocument,
    "ladder": LadderDocument,
    "launch": LaunchDocument,
    "ls": ListingDocument,
    "memory": MemoryDocument,
    "predict": PredictionDocument,
    "replay-check": ReplayCheckDocument,
    "show": SingleRunDocument,
}


def build_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of the document printed by the command ``name``.

    Raises:
        KeyError: the command prints no document.
    """
    (reference,), components = msgspec.json.schema_components(
        (_CONTENTS[name],),
        ref_template="#/$defs/{name}",
        schema_hook=describe_number_type,
    )
    content = components.pop(reference["$ref"].rpartition("/")[2])
    envelope = {
        "schema": {"const": f"graphviz-dash/{name}"},
        "version": {"const": VERSIONS[name]},
    }
    schema = {
        "$schema": _DRAFT,
        "title": f"graphviz-dash/{name}, version {VERSIONS[name]}",
        "description": content["description"],
        "type": "object",
        "properties": envelope | content["properties"],
        "required": [*envelope, *content["required"]],
        "$defs": dict(sorted(components.items())),
    }
    _put_null_last(schema)
    return schema


def _put_null_last(schema: object) -> None:
    """Put null last in every union, as msgspec 0.22 does."""
    match schema:
        case dict():
            schema.get("anyOf", []).sort(key=lambda member: member == {"type": "null"})
            for value in schema.values():
                _put_null_last(value)
        case list():
            for value in schema:
                _put_null_last(value)
