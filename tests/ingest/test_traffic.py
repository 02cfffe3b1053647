from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.traffic import read_traffic


def test_sizes_and_counts(tmp_path: Path) -> None:
    file = tmp_path / "traffic.txt"
    file.write_text("# size count\n17\n4, 3\n\n9 2  # evening\n")
    assert read_traffic(file).tolist() == [17, 4, 4, 4, 9, 9]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no sizes"),
        ("1\nmany\n", "line 2: 'many'"),
        ("0\n", "a size of 0"),
        ("1 2 3\n", "line 1: '1 2 3'"),
        ("1 99999999\n", "more than 10,000,000 requests"),
        ("1 0\n", "no sizes"),
        ("\u0661\n", "line 1"),
    ],
)
def test_invalid_traffic_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "traffic.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read_traffic(file)


def test_no_text(tmp_path: Path) -> None:
    (tmp_path / "traffic.bin").write_bytes(b"1\n\xff")
    with pytest.raises(InputError, match="invalid UTF-8 at byte 2"):
        read_traffic(tmp_path / "traffic.bin")
    with pytest.raises(InputError, match="No such file"):
        read_traffic(tmp_path / "absent")
