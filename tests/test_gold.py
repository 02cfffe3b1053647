from __future__ import annotations

from pathlib import Path

import pytest

from tests.gold import assert_gold


@pytest.fixture(autouse=True)
def _no_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPDATE_GOLD", raising=False)


def test_a_mismatch_fails_and_is_saved(tmp_path: Path) -> None:
    gold = tmp_path / "a.txt"
    gold.write_text("one\ntwo\n")
    with pytest.raises(pytest.fail.Exception, match=r"-two\n\+three"):
        assert_gold("one\nthree\n", gold)
    assert (tmp_path / "a.txt.found").read_text() == "one\nthree\n"
    assert_gold("one\ntwo\n", gold)
    assert not (tmp_path / "a.txt.found").exists()


def test_a_missing_file_fails(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception):
        assert_gold("one\n", tmp_path / "a.txt")


def test_it_is_written_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPDATE_GOLD", "1")
    assert_gold("one\n", tmp_path / "new" / "a.txt")
    assert (tmp_path / "new" / "a.txt").read_text() == "one\n"
