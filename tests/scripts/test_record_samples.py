from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_traces"
sys.path.insert(0, str(ROOT / "scripts"))

from record_samples import README, parse_commands  # noqa: E402


class Recorded(msgspec.Struct):
    command: list[str]


COMMANDS = parse_commands(README.read_text(encoding="utf-8"))
MANIFESTS = sorted(SAMPLES.glob("*/*/manifest.json"))


def test_every_sample_has_its_commands() -> None:
    folders = {path.name for path in SAMPLES.iterdir() if path.is_dir()}
    assert set(COMMANDS) == folders


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_a_run_was_recorded_with_a_command_of_the_page(manifest: Path) -> None:
    recorded = msgspec.json.decode(manifest.read_bytes(), type=Recorded).command
    folder = recorded.index("-o") + 1
    # Where to is all that may differ.
    recorded[folder] = f"sample_traces/{Path(recorded[folder]).name}"
    assert recorded in COMMANDS[manifest.parts[-3]]
