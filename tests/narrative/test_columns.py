from __future__ import annotations

from typing import Final

import pytest
from msgspec import Struct

from graphviz_dash.cli.text.output import print_rows
from graphviz_dash.narrative.columns import (
    COUNT,
    MICROSECONDS,
    SHARE,
    TEXT,
    Column,
    lower_first_letter,
    omit_empty_columns,
)
from graphviz_dash.ui.page.tables import format_rows, list_headings


class _Kernel(Struct, frozen=True):
    name: str
    count: int
    time: int | None


_COLUMNS: Final[tuple[Column[_Kernel], ...]] = (
    Column("Kernel", lambda kernel: kernel.name),
    Column("Uses", lambda kernel: kernel.count, COUNT),
    Column("GPU time", lambda kernel: kernel.time, MICROSECONDS),
    Column("Share", lambda kernel: None, SHARE, None),
    Column(None, lambda kernel: kernel.name[::-1], TEXT, "reversed"),
)
_KERNELS: Final = (_Kernel("gemm", 1200, 2500), _Kernel("<b>", 1, None))


def test_terminal_shows_its_columns_with_units(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(_COLUMNS, _KERNELS)
    head, _, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["kernel", "uses", "GPU", "time", "reversed"]
    assert first.split() == ["gemm", "1,200", "2.50", "µs", "mmeg"]
    assert second.split() == ["<b>", "1", "–", ">b<"]


def test_markup_shows_its_columns_escaped() -> None:
    assert list_headings(_COLUMNS) == ["Kernel", "Uses", "GPU time", "Share"]
    assert format_rows(_COLUMNS, _KERNELS) == [
        [
            "gemm",
            '<span class="num">1,200</span>',
            '<span class="num">2.50 µs</span>',
            '<span class="num">–</span>',
        ],
        [
            "&lt;b&gt;",
            '<span class="num">1</span>',
            '<span class="num">–</span>',
            '<span class="num">–</span>',
        ],
    ]


def test_columns_without_a_value_are_omitted() -> None:
    titles = [column.title for column in omit_empty_columns(_COLUMNS, _KERNELS[1:])]
    assert titles == ["Kernel", "Uses", None]


@pytest.mark.parametrize(
    ("title", "heading"), [("Steps", "steps"), ("GPU time", "GPU time"), ("", "")]
)
def test_acronyms_keep_their_case(title: str, heading: str) -> None:
    assert lower_first_letter(title) == heading
