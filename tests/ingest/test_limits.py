from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import fields

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.ingest.limits import LIMITS_VARIABLE, Limits, parse_limits
from tests.importers.test_bundles import replay


def test_each_can_be_changed() -> None:
    for field in fields(Limits):
        changed = parse_limits(f"{field.name}=7")
        assert getattr(changed, field.name) == 7
        others = [other.name for other in fields(Limits) if other.name != field.name]
        assert all(getattr(changed, name) == getattr(Limits(), name) for name in others)


def test_several_and_none() -> None:
    assert parse_limits("") == Limits()
    assert parse_limits(" events=5 , nesting=6, ") == Limits(events=5, nesting=6)


@pytest.mark.parametrize("text", ["event=5", "events", "events=", "events=-1", "events=lots"])
def test_an_invalid_limit_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=LIMITS_VARIABLE):
        parse_limits(text)


def test_the_error_says_how(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"raise the limit: set {LIMITS_VARIABLE}=events=NUMBER"):
        read_trace(replay(tmp_path / "a.json.gz"), Limits(events=3))


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [("events=3", 2, "limit events"), ("event=3", 2, "the limit 'event'"), ("", 0, "")],
)
def test_commands_take_it_from_the_environment(
    tmp_path: Path, value: str, code: int, said: str
) -> None:
    file = replay(tmp_path / "a.json.gz")
    program = (
        "import sys; from graphviz_dash.app.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "import", str(file), "-o", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, LIMITS_VARIABLE: value},
    )
    assert ran.returncode == code, ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
