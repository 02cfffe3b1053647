from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.bundle.launch import (
    LAUNCH_FILE,
    find_launches,
    is_launch,
    read_launch,
    write_launch,
)
from graphviz_dash.bundle.schema import MANIFEST_FILE
from graphviz_dash.errors import InputError
from graphviz_dash.model.launch import LaunchRecording, LaunchSeries, Topology
from tests.analysis.launches import lines, recording
from tests.faults import locked

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_launch(tmp_path / "one", recording(*lines(lambda n: 2000 + n)))
    return tmp_path / "one"


def test_round_trip(folder: Path) -> None:
    assert is_launch(folder)
    assert read_launch(folder) == recording(*lines(lambda n: 2000 + n))
    assert read_launch(folder / LAUNCH_FILE) == read_launch(folder)
    assert [file.name for file in folder.iterdir()] == [LAUNCH_FILE]


def test_folders_that_may_not_be_entered_are_passed_over(folder: Path) -> None:
    write_launch(folder.parent / "two", read_launch(folder))
    assert len(find_launches(folder.parent)) == 2
    with locked(folder):
        assert find_launches(folder.parent) == [folder.parent / "two"]


def test_the_sample_is_read() -> None:
    sample = read_launch(ROOT / "sample_traces" / "launch-h200")
    assert sample.complete
    assert {len(values) for one in sample.series for values in one.samples.values()} == {60}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(version=4), "version 4.*version 1 or 2 or 3"),
        (lambda d: d.update(process_trials=0), "process_trials|>= 1"),
        (lambda d: d.update(format="other"), "format 'other'"),
        (lambda d: d.update(odd=1), "unknown field `odd`"),
        (lambda d: d.pop("trials"), "trials"),
        (lambda d: d["series"][0]["samples"].update(repeat_launch_cpu=[-1]), "-?1|>= 0"),
        (lambda d: d["series"][0]["samples"].update(repeat_launch_cpu=[]), "without samples"),
        (lambda d: d["series"][0]["samples"].update(odd=[1]), "odd"),
    ],
)
def test_a_launch_file_that_breaks_the_format_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    file = folder / LAUNCH_FILE
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        read_launch(folder)
    assert re.search(words, str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"format": 1}'])
def test_a_malformed_launch_file_is_refused(folder: Path, content: bytes) -> None:
    (folder / LAUNCH_FILE).write_bytes(content)
    with pytest.raises(InputError):
        read_launch(folder)


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_launch(tmp_path)


def test_finding_them(folder: Path) -> None:
    write_launch(folder.parent / "b" / "c", recording())
    write_launch(folder.parent / ".hidden", recording())
    (folder.parent / "link").symlink_to(folder)
    assert find_launches(folder.parent) == [folder.parent / "b" / "c", folder]
    assert find_launches(folder.parent, depth=1) == [folder]


def test_the_page_names_every_field() -> None:
    page = (ROOT / "docs" / "reference" / "launch-format.md").read_text(encoding="utf-8")
    for struct in (LaunchRecording, LaunchSeries, Topology):
        for field in struct.__struct_fields__:
            assert re.search(rf"`{field}(\[\]|\{{\}})?\??`", page), field


def test_a_search_does_not_look_into_run_bundles(tmp_path: Path) -> None:
    inside = tmp_path / "run" / "traces"
    write_launch(inside, recording(*lines(lambda n: 2000 + n)))
    assert find_launches(tmp_path) == [inside]
    (tmp_path / "run" / MANIFEST_FILE).touch()
    assert find_launches(tmp_path) == []
