"""What the recorder learns of torch.compile from each version of torch: the table of
evaluation/reports/2026-11-24-torch-compile.md.

python -m evaluation.compile.versions PYTHON... [--keep FOLDER]

Each PYTHON is an interpreter with one version of torch (the CPU is enough) and msgspec. It runs
``versions_program.py``, which breaks, recompiles and splits, under the recorder and with
TORCH_TRACE. What can only be seen on a GPU is looked up in that torch's sources: the attributes of
its cudagraph trees and the texts of its log.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.torch_trace_logs import count, imported

_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = Path(__file__).with_name("versions_program.py")
_SECONDS: Final = 900


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--keep", type=Path, help="A folder for the logs.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        columns = [
            _recorded(python, folder / str(at)) for at, python in enumerate(arguments.pythons)
        ]
    facts = list(dict.fromkeys(fact for column in columns for fact in column))
    print(
        "| " + " | ".join(facts[:1] + [str(column.get("torch", "")) for column in columns]) + " |"
    )
    print("| --- " * (len(columns) + 1) + "|")
    for fact in facts[1:]:
        cells = [str(column.get(fact, "not run")) for column in columns]
        print("| " + " | ".join([fact, *cells]) + " |")


def _recorded(python: str, folder: Path) -> dict[str, Any]:
    """Facts by name of one version, or its failure."""
    folder.mkdir(parents=True, exist_ok=True)
    libraries = Path(python).parents[1] / "stubs"
    environment = dict(os.environ) | {
        "PYTHONPATH": str(_ROOT),
        "TORCH_TRACE": str(folder),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "LD_LIBRARY_PATH": str(libraries),
    }
    facts_path = folder / "facts.json"
    process = subprocess.run(
        [python, str(_PROGRAM), str(facts_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if not facts_path.exists():
        return {"torch": python, "failed": (process.stderr.strip().splitlines() or ["?"])[-1]}
    facts: dict[str, Any] = json.loads(facts_path.read_text())
    logs = sorted(folder.glob("dedicated_log_torch_trace*"))
    are_equal = [count(log) == imported(log) for log in logs]
    facts["log of TORCH_TRACE, counted twice"] = (
        "equal" if are_equal and all(are_equal) else "differs"
    )
    return facts


if __name__ == "__main__":
    sys.exit(main())
