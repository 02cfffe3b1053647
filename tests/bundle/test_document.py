from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.bundle.document import Document, write_atomically
from graphviz_dash.errors import InputError


class _Note(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    text: str


NOTES = Document("notes", (1, 2), _Note, 200, "Write one.")


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    note = _Note("notes", 2, "x")
    write_atomically(tmp_path / "note.json", msgspec.json.encode(note))
    assert NOTES.read(tmp_path / "note.json") == note
    assert [file.name for file in tmp_path.iterdir()] == ["note.json"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no json", "malformed"),
        (b'{"format": "poems", "version": 1, "text": ""}', "format 'poems'"),
        (b'{"format": "notes", "version": 3, "text": ""}', "version 3 of notes.*newer graphviz"),
        (b'{"format": "notes", "version": 0, "text": ""}', "version 0 of notes.*Write one"),
        (b'{"format": "notes", "version": 1, "text": 5}', "text"),
        (b'{"format": "notes", "version": 1, "text": "", "odd": 1}', "odd"),
        (b'{"version": 1}', "format"),
        (b" " * 201, "more than 200 bytes"),
        (b"[" * 150, "array|recursion|malformed|truncated"),
    ],
)
def test_an_invalid_document_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "note.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=f"(?i){said}") as caught:
        NOTES.read(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file.*Write one"):
        NOTES.read(tmp_path / "nothing")


def test_a_place_that_cannot_be_written_keeps_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "note.json"
    folder.mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        write_atomically(folder, b"new")
    assert caught.value.filename == str(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["note.json"]
