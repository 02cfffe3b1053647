from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from playwright._impl._driver import compute_driver_executable

from graphviz_dash.ui.components.scripts import join_modules
from scripts.wire_types import RESPONSES, ROOT, format_module

TESTS: Final = Path(__file__).parent / "scripts"
NODE: Final = compute_driver_executable()[0]
"""The Node that Playwright brings along."""

MODULES: Final = sorted(ROOT.rglob("*.js"))
ENTRIES: Final = [
    ROOT / "features/graph/page/component/dag.js",
    ROOT / "features/timeline/page/component/timeline.js",
    ROOT / "features/perfetto/page/component/perfetto.js",
]
MOST_LINES: Final = 60

_FUNCTION: Final = re.compile(
    r"^( *)(?:export (?:default )?)?(?:(?:async )?function\*?|(?:async |get )?\w+\(.*\) \{$)"
)


def run_node(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(NODE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_the_scripts_pass_their_tests() -> None:
    ran = run_node("--test", *(str(path) for path in sorted(TESTS.glob("*.test.js"))))
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("folder", RESPONSES)
def test_types_of_answers_come_from_the_structs(folder: str) -> None:
    written = (ROOT / folder / "wire.js").read_text(encoding="utf-8")
    assert written == format_module(folder), "run: make docs"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda path: path.stem)
def test_the_one_script_is_a_module_with_a_default_export(entry: Path, tmp_path: Path) -> None:
    joined = tmp_path / "joined.mjs"
    joined.write_text(join_modules(entry), encoding="utf-8")
    ran = run_node("--check", str(joined))
    assert ran.returncode == 0, ran.stderr
    assert joined.read_text(encoding="utf-8").count("\nexport default ") == 1


def test_modules_keep_their_own_names_in_the_one_script(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text(
        '/** Says. */\nconst OWN = "a";\nexport function sayA() {\n  return OWN;\n}\n'
    )
    (tmp_path / "b.js").write_text(
        'import { sayA } from "./a.js";\n\nconst OWN = "b";\nexport class B {}\n'
        "export const said = sayA() + OWN;\n"
    )
    (tmp_path / "entry.js").write_text(
        'import {\n  B,\n  said,\n} from "./b.js";\nimport { sayA } from "./a.js";\n'
        "console.log(said, sayA(), typeof B);\nexport default said;\n"
    )
    joined = tmp_path / "joined.mjs"
    joined.write_text(join_modules(tmp_path / "entry.js"))
    assert "Says" not in joined.read_text()
    assert run_node(str(joined)).stdout == "ab a function\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import { a } from "./entry.js";\n', "import cycle through entry.js"),
        ('import * as a from "./a.js";\n', "unsupported form"),
        ('import a from "./a.js";\n', "unsupported form"),
        ("const a = 1;\nexport { a };\n", "unsupported form"),
        ("export let a = 1;\n", "unsupported form"),
    ],
)
def test_other_forms_of_modules_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "entry.js").write_text(text)
    with pytest.raises(ValueError, match=message):
        join_modules(tmp_path / "entry.js")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_functions_are_short(path: Path) -> None:
    """Formatted code ends a function with a brace as far to the left as its first line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for begin, line in enumerate(lines):
        found = _FUNCTION.match(line)
        if found:
            end = next(
                at for at in range(begin + 1, len(lines)) if lines[at].startswith(f"{found[1]}}}")
            )
            assert end - begin < MOST_LINES, f"{path.name}:{begin + 1} has {end - begin + 1} lines"
