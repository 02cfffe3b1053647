"""Write docs/schemas from the types of the JSON documents.

python -m scripts.document_schemas docs/schemas.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from graphviz_dash.app.documents.schemas import build_schema
from graphviz_dash.exports.documents.envelope import VERSIONS


def build_schema_files() -> dict[str, str]:
    """Return the text of each schema by file name."""
    return {
        f"{name}-{version}.json": json.dumps(build_schema(name), indent=2) + "\n"
        for name, version in VERSIONS.items()
    }


def main() -> None:
    """Write the schemas."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in build_schema_files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
