from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from graphviz_dash.analysis.doctor import EXIT_CODES
from tests.cli.fixtures import Invoke

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_traces"
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")})
SERVES = {"serve", "demo"}
ANYWHERE = {"cache", "completion", "docs"}


def console_lines(page: Path) -> list[str]:
    """The commands in a page's console blocks, continued lines joined."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    joined = "\n".join(blocks).replace("\\\n", " ")
    lines = (line.strip().removeprefix("$ ") for line in joined.splitlines())
    return [line for line in lines if line.startswith("graphviz-dash ")]


def runs_here(line: str) -> bool:
    words = shlex.split(line.partition(" > ")[0].partition(" | ")[0])
    if "--open" in words:
        return False
    on_samples = any(word.startswith("sample_traces") for word in words[2:])
    return words[1] not in SERVES and (on_samples or words[1] in ANYWHERE)


LINES = list(dict.fromkeys(line for page in PAGES for line in console_lines(page)))
EXAMPLES = [line for line in LINES if runs_here(line)]


def test_there_are_examples() -> None:
    shown = {shlex.split(example)[1] for example in EXAMPLES}
    assert {"ls", "show", "compare", "validate", "export", "predict", "gate"} <= shown


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example: str, folder: Path, invoke: Invoke) -> None:
    for sample in SAMPLES.iterdir():
        # Small experiments of the fixture replace the samples of the same names.
        if sample.is_dir() and not (folder / "sample_traces" / sample.name).exists():
            (folder / "sample_traces" / sample.name).symlink_to(sample)
    if "validate sample_traces" in example:
        example = example.replace("sample_traces", "sample_traces/mlp-train")
    if "doctor --bundle" in example:
        # The small experiments have no doctor report.
        example = example.replace("sample_traces", str(SAMPLES))
    words = shlex.split(example.partition(" > ")[0].partition(" | ")[0])
    result = invoke(*words[1:])
    # A doctor that shows findings has the exit code of the worst one, and no error.
    codes = set(EXIT_CODES.values()) if words[1] == "doctor" and result.out else {0}
    assert result.code in codes, result.err
