from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from graphviz_dash.cli.text.output import build_cell, create_table, fit_table

WIDTH = 80


def printed(table: Table) -> list[str]:
    console = Console(file=io.StringIO(), width=WIDTH)
    with console.capture() as told:
        console.print(table)
    return [line.rstrip() for line in told.get().splitlines()]


def figures() -> Table:
    """Six runs with their spreads, as `compare` lists them."""
    headings = ["", *(part for at in range(6) for part in (f"run-{at}", "spread")), "pass"]
    table = create_table(*headings, right=range(1, 12, 2))
    spread = "95%, 5 processes: 1.47 to 1.69 ms"
    pairs = [part for at in range(6) for part in (f"1.5{at} ms", spread)]
    table.add_row(*map(build_cell, ("  Step time", *pairs, "clean")))
    return table


def test_no_number_is_broken_and_each_part_begins_with_the_names() -> None:
    parts, left_out = fit_table(figures(), WIDTH, 1, ())
    assert left_out == []
    told = [printed(part) for part in parts]
    assert max(len(line) for lines in told for line in lines) <= WIDTH
    text = "\n".join(line for lines in told for line in lines)
    assert all(f"1.5{at} ms" in text for at in range(6))
    assert [sum("Step time" in line for line in lines) for lines in told] == [1] * len(parts)
    # A spread stands beside its value.
    for part in parts:
        headings = [str(column.header) for column in part.columns]
        assert all(
            headings[at - 1].startswith("run-") for at, h in enumerate(headings) if h == "spread"
        )


def test_a_table_too_wide_omits_and_names_optional_columns() -> None:
    table = create_table("run", "GPU", "workload", "step time", right=(3,))
    table.add_row(*map(build_cell, ("samples/" + "x" * 30, "NVIDIA H200 NVL", "w" * 20, "571 µs")))
    (part,), left_out = fit_table(table, WIDTH, 1, (1, 2))
    assert left_out == ["GPU"]
    assert [str(column.header) for column in part.columns] == ["run", "workload", "step time"]
    assert len(printed(part)) == 3


def test_a_table_that_fits_is_left_as_it_is() -> None:
    table = create_table("run", "step time", right=(1,))
    table.add_row(build_cell("eager"), build_cell("571 µs"))
    (part,), left_out = fit_table(table, WIDTH, 1, (1,))
    assert (printed(part), left_out) == (printed(table), [])


def test_a_long_heading_leaves_room_for_the_labels() -> None:
    table = create_table("", "decode-" + "3" * 90, "spread", "pass", right=(1,))
    table.add_row(
        *map(build_cell, ("Step time under profiler", "1.33 ms", "1.2 to 1.4 ms", "traced"))
    )
    parts, _ = fit_table(table, WIDTH, 1, ())
    told = [line for part in parts for line in printed(part)]
    assert max(map(len, told)) <= WIDTH
    assert any("Step time under profiler" in line and "1.33 ms" in line for line in told)
    assert any("decode-333" in line and "…" in line for line in told)
