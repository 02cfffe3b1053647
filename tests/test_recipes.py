from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK: Final = re.compile(
    r"^```(?:python|text) (?P<how>file|row)=(?P<path>\S+)(?: below=(?P<below>[^\n]+))?\n"
    r"(?P<text>.*?)^```$",
    re.M | re.S,
)
TRIES: Final = {
    "Add a metric": """
        from graphviz_dash.app.cli.main import main
        assert main(["show", "--all", "sample_traces/fork-join/graph"]) == 0
    """,
    "Add a workload": """
        from collectors.workloads import get_factory_path, load_factory
        print(load_factory(get_factory_path("axpy")).__doc__)
    """,
    "Add a page": """
        import sys
        from streamlit.testing.v1 import AppTest

        def page():
            import sys
            from importlib import import_module
            from graphviz_dash.ui.page.navigation import NAMES, get_module_name
            sys.argv = ["app.py", "sample_traces"]
            assert "failures" in NAMES
            import_module(get_module_name("failures")).render()

        test = AppTest.from_function(page, default_timeout=60)
        test.query_params["experiment"] = "sync-in-step"
        test.run()
        assert not test.exception, test.exception
        print(*(piece.value for piece in test.get("html")))
    """,
    "Add a command": """
        import json
        from click.testing import CliRunner
        from graphviz_dash.app.cli.main import cli
        from graphviz_dash.app.documents.schemas import build_schema
        assert "failures" in build_schema("failures")["properties"]
        command = ["failures", "sample_traces/sync-in-step"]
        document = json.loads(CliRunner().invoke(cli, [*command, "--json"]).output)
        assert document["failures"][0]["run"] == "graph"
        print(CliRunner().invoke(cli, command).output)
    """,
    "Add a doctor rule": """
        from collectors.doctor.classify import classify_message
        from graphviz_dash.model.rules import RULES
        message = "operation would make the legacy stream depend on a capturing blocking stream"
        print(RULES[classify_message(message)].advice)
    """,
    "Add an execution mode": """
        from collectors.passes.modes import prepare_mode
        from graphviz_dash.model.run import ExecutionMode
        runs = []
        prepare_mode(ExecutionMode("twice"), lambda: runs.append(1))()
        print(len(runs), "runs")
    """,
    "Add a foreign format": """
        from pathlib import Path
        from graphviz_dash.app.cli.main import main
        Path("edges.txt").write_text("# edges\\n0 1\\n1 2\\n")
        assert main(["import", "edges.txt", "-o", "imported"]) == 0
        assert main(["show", "imported/edges"]) == 0
    """,
    "Add a part to the bundle": """
        from pathlib import Path
        from graphviz_dash.bundle import parts
        from graphviz_dash.bundle.read import read_bundle
        from graphviz_dash.bundle.write import BundleWriter
        from graphviz_dash.model.notes import Notes
        from tests.bundle.examples import MANIFEST
        with BundleWriter(Path("noted")) as writer:
            writer.add(parts.NOTES, Notes(("looked at by a person",)))
            writer.commit(MANIFEST)
        print(read_bundle(Path("noted")).notes.lines[0])
    """,
}
SAYS: Final = {
    "Add a metric": "Root nodes",
    "Add a workload": "y += 2 x",
    "Add a page": "graph failed in its clean pass",
    "Add a command": "graph failed in its clean pass",
    "Add a doctor rule": "create its stream as non-blocking",
    "Add an execution mode": "2 runs",
    "Add a foreign format": "3 nodes",
    "Add a part to the bundle": "looked at by a person",
}


def recipe(title: str) -> str:
    return PAGE.split(f"\n### {title}\n")[1].split("\n## ")[0].split("\n### ")[0]


def follow(title: str, copy: Path) -> None:
    blocks = list(BLOCK.finditer(recipe(title)))
    assert blocks
    for block in blocks:
        file = copy / block["path"]
        if block["how"] == "file":
            assert not file.exists()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block["text"], encoding="utf-8")
            continue
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        (above,) = [i for i, line in enumerate(lines) if line.strip() == block["below"].strip()]
        lines.insert(above + 1, block["text"])
        # The file is shared with the other recipes.
        file.unlink()
        file.write_text("".join(lines), encoding="utf-8")


def test_every_recipe_is_tried() -> None:
    assert re.findall(r"^### (.*)$", PAGE, re.M) == list(TRIES)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages with what Python compiled of them, except for the rewritten tests."""
    ignored = shutil.ignore_patterns("*-pytest-*.pyc", "gold")
    folder = tmp_path_factory.mktemp("packages")
    for part in ("graphviz_dash", "collectors", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    return folder


@pytest.mark.parametrize("title", TRIES)
def test_a_recipe_that_is_followed_works(title: str, packages: Path, tmp_path: Path) -> None:
    shutil.copytree(packages, tmp_path, copy_function=os.link, dirs_exist_ok=True)
    (tmp_path / "sample_traces").symlink_to(ROOT / "sample_traces")
    follow(title, tmp_path)
    fake_torch = tmp_path / "tests" / "collectors" / "fake_torch"
    lines = TRIES[title].splitlines()[1:]
    script = tmp_path / "try_it.py"
    script.write_text("\n".join(line[8:] for line in lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{fake_torch}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[title] in done.stdout
