from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from collectors.program import files
from collectors.program.files import IDENTITY_FILE, Identity, Problems, ProcessFolder, encode_json


def test_two_folders_of_one_process_differ_and_come_in_their_order(tmp_path: Path) -> None:
    folders = [ProcessFolder.create(tmp_path) for _ in range(3)]
    for folder in reversed(folders):
        folder.put(IDENTITY_FILE, Identity(None, None, "2.11", "3.12"))
    assert ProcessFolder.list_all(tmp_path) == [folder.path for folder in folders]


def test_a_folder_without_its_identity_is_none(tmp_path: Path) -> None:
    ProcessFolder.create(tmp_path)
    assert ProcessFolder.list_all(tmp_path) == []


def test_invalid_text_is_escaped() -> None:
    problems = msgspec.json.decode(encode_json(Problems(1, "tr\udcffain.py")), type=Problems)
    assert problems.first == "tr\\udcffain.py"


def test_refusals_are_counted_and_leave_what_was_there(tmp_path: Path) -> None:
    folder = ProcessFolder.create(tmp_path)
    folder.put("a.json", Problems(1, "first"))
    (folder.path / f".a.json.{threading.get_ident()}").mkdir()
    folder.put("a.json", Problems(2, "second"))
    folder.put("a.json", Problems(3, "third"))
    assert folder.refusals == 2
    assert folder.first_refusal == "a.json: Is a directory"
    assert msgspec.json.decode((folder.path / "a.json").read_bytes(), type=Problems).errors == 1


def test_two_threads_may_write_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ProcessFolder.create(tmp_path)
    write = files._write

    def write_after_another(file: Path, content: bytes) -> None:
        write(file, content)
        monkeypatch.setattr(files, "_write", write)
        other = threading.Thread(target=folder.put, args=("a.json", Problems(2, "second")))
        other.start()
        other.join()

    monkeypatch.setattr(files, "_write", write_after_another)
    folder.put("a.json", Problems(1, "first"))
    assert folder.refusals == 0
    assert msgspec.json.decode((folder.path / "a.json").read_bytes(), type=Problems).errors == 1
