from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from collectors.doctor import places
from collectors.doctor.drafts import find_illegal_calls
from collectors.doctor.events import Event, StepLog, Violation
from collectors.doctor.places import (
    SourceLocation,
    find_error_location,
    find_user_location,
    is_condition,
    is_user_code,
)
from graphviz_dash.analysis.doctor import diagnose
from graphviz_dash.model.doctor import DetectionMethod, RuleId
from graphviz_dash.narrative.doctor import format_other_places
from tests.doctors import report

CODE = """\
def step(x, limit):
    y = x * 2
    if y.sum() > limit:
        y = y / 2
    while (
        y.max()
        > 1
    ):
        y = y / 2
    assert y.min() >= 0
    return 1 if y.any() else 0
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(CODE)
    return file


@pytest.mark.parametrize(("line", "expected"), [(2, False), (3, True), (4, False), (6, True)])
def test_lines_in_conditions_decide(script: Path, line: int, expected: bool) -> None:
    assert is_condition(SourceLocation(str(script), line, "step")) is expected


@pytest.mark.parametrize("line", [10, 11])
def test_assertions_and_conditional_expressions_decide(script: Path, line: int) -> None:
    assert is_condition(SourceLocation(str(script), line, "step"))


def test_a_file_that_is_no_python_decides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text("if (")
    assert not is_condition(SourceLocation(str(file), 1, "step"))


def test_a_place_carries_a_few_lines_around_it(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parent)
    place = SourceLocation(str(script), 2, "step").to_code_place()
    assert (place.file, place.line, place.function, place.first_line) == ("train.py", 2, "step", 1)
    assert place.lines == tuple(CODE.splitlines()[:5])
    assert place.text == "train.py:2"


def test_a_place_without_source_has_no_lines() -> None:
    assert SourceLocation("<string>", 3, "f").to_code_place().lines == ()


def test_libraries_and_our_own_code_are_not_the_users(script: Path) -> None:
    ours = Path(places.__file__)
    assert is_user_code(str(script))
    assert is_user_code(str(ours.parents[1] / "workloads" / "mlp.py"))
    for file in (
        str(ours),
        "<frozen runpy>",
        "/x/site-packages/torch/nn/modules/module.py",
        str(Path(sysconfig.get_path("stdlib")) / "contextlib.py"),
    ):
        assert not is_user_code(file), file


def test_an_error_leads_to_the_innermost_line_of_the_user(script: Path) -> None:
    code = compile("def f():\n    return {}['missing']\ndef g():\n    return f()\n", script, "exec")
    space: dict[str, object] = {}
    exec(code, space)
    with pytest.raises(KeyError) as caught:
        space["g"]()  # type: ignore[operator]
    found = find_error_location(caught.value.__traceback__)
    assert found is not None
    assert (found.line, found.function) == (2, "f")


def test_code_generated_by_torch_compile_is_not_user_code() -> None:
    assert not is_user_code(
        "/tmp/torchinductor_x/in/cinkgwezs3qf5atatmtrk6hdnohttq3uq7ir3i35dsqzj2n4ff3v.py"
    )


def load_frames(folder: Path) -> dict[str, object]:
    """Functions of a program, a library and torch that call each other."""
    scope: dict[str, object] = {}
    sources = {
        folder / "site-packages" / "torch" / "ops.py": "def run(f):\n    return f()\n",
        folder
        / "site-packages"
        / "gps"
        / "conv.py": "def conv(f):\n    # h[mask]\n    return run(f)\n",
        folder / "train.py": "def step(f):\n    return conv(f)\n",
    }
    for file, source in sources.items():
        exec(compile(source, str(file), "exec"), scope)
    return scope


def test_a_library_line_is_named_with_the_line_that_calls_it(tmp_path: Path) -> None:
    step = load_frames(tmp_path)["step"]
    found = step(lambda: find_user_location(sys._getframe(1)))  # type: ignore[operator]
    assert found is not None
    assert (found.file, found.line) == (str(tmp_path / "site-packages" / "gps" / "conv.py"), 3)
    assert (found.caller.file, found.caller.line) == (str(tmp_path / "train.py"), 2)


def test_an_error_in_a_library_has_both_lines(tmp_path: Path) -> None:
    step = load_frames(tmp_path)["step"]
    with pytest.raises(ZeroDivisionError) as raised:
        step(eval(compile("lambda: 1 / 0", "<string>", "eval")))  # type: ignore[operator]
    found = find_error_location(raised.value.__traceback__)
    assert found is not None
    assert (Path(found.file).name, found.line) == ("conv.py", 3)
    assert found.caller is not None
    assert Path(found.caller.file).name == "train.py"


def test_a_line_of_the_program_has_no_caller(tmp_path: Path) -> None:
    scope = load_frames(tmp_path)
    program = compile("def own(f):\n    return run(f)\n", str(tmp_path / "own.py"), "exec")
    exec(program, scope)
    found = scope["own"](lambda: find_user_location(sys._getframe(1)))  # type: ignore[operator]
    assert (Path(found.file).name, found.line, found.caller) == ("own.py", 2, None)


def test_ten_library_lines_of_one_call_are_one_finding_with_ten_places(tmp_path: Path) -> None:
    """From frames of a library to the text of the doctor."""
    library = "".join(f"def layer_{n}(f, h, mask):\n    h = f()\n" for n in range(10))
    calls = "".join(f"    layer_{n}(f, 1, 2)\n" for n in range(10))
    scope: dict[str, Any] = {}
    for file, source in (
        (tmp_path / "site-packages" / "gps" / "gps_conv.py", library),
        (tmp_path / "site-packages" / "gps" / "model.py", f"def forward(f):\n{calls}"),
        (tmp_path / "kinds.py", "def step(f):\n    forward(f)\n"),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
        exec(compile(source, str(file), "exec"), scope)
    events: list[Event] = []

    def observe() -> None:
        spot = find_user_location(sys._getframe(1))
        violation = Violation(RuleId.SYNC_SHAPE)
        events.append(Event("aten::nonzero", spot, "0x1", True, None, violation=violation))

    scope["step"](observe)
    drafts = find_illegal_calls(StepLog(events), DetectionMethod.EAGER)
    findings = [draft.to_finding() for draft in drafts]
    (group,) = diagnose(report(*findings)).groups
    assert [finding.location.line for finding in group.findings] == list(range(2, 21, 2))
    assert {finding.location.file.rpartition("/")[2] for finding in group.findings} == {
        "gps_conv.py"
    }
    assert {finding.caller.text.rpartition("/")[2] for finding in group.findings} == {"kinds.py:2"}
    assert group.first.location.lines[1] == "    h = f()"
    assert len(format_other_places(group)) == 9
