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
from graphviz_dash.ui.page.tables import format_row_table


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
    columns: tuple[Column[_Kernel], ...] = (
        Column("", lambda kernel: kernel.name, explain=lambda kernel: f"{kernel.name}!"),
        *_COLUMNS[1:3],
        Column("Share", lambda kernel: 0.5, SHARE, note=lambda kernel: "<" if kernel.time else ""),
        _COLUMNS[4],
    )
    table = format_row_table(columns, [("<all>", _KERNELS)])
    assert '<td></td><th scope="col">Uses</th><th scope="col">GPU time</th>' in table
    assert "mmeg" not in table
    assert '<th scope="rowgroup" colspan="4">&lt;all&gt;</th>' in table
    assert (
        '<th scope="row"><abbr title="gemm!" tabindex="0">gemm</abbr></th>'
        '<td><span class="num">1,200</span></td><td><span class="num">2.50 µs</span></td>'
        '<td><span class="num">50.0%</span><span class="spread">&lt;</span></td>'
    ) in table
    assert (
        '<abbr title="&lt;b&gt;!" tabindex="0">&lt;b&gt;</abbr></th>'
        '<td><span class="num">1</span></td><td><span class="num">–</span></td>'
        '<td><span class="num">50.0%</span></td>'
    ) in table


def test_columns_without_a_value_are_omitted() -> None:
    titles = [column.title for column in omit_empty_columns(_COLUMNS, _KERNELS[1:])]
    assert titles == ["Kernel", "Uses", None]


@pytest.mark.parametrize(
    ("title", "heading"), [("Steps", "steps"), ("GPU time", "GPU time"), ("", "")]
)
def test_acronyms_keep_their_case(title: str, heading: str) -> None:
    assert lower_first_letter(title) == heading
