"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

JSON_OPTION: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
BASELINE_OPTION: Final = click.option(
    "--baseline", metavar="MODE", help="Mode or name of the baseline run.  [default: eager]"
)


def add_count_option(
    name: str, default: int, rows: str, parameter: str = "count"
) -> Callable[[Any], Any]:
    """Add an option for the number of ``rows`` to list."""
    return click.option(
        name,
        parameter,
        default=default,
        show_default=True,
        type=click.IntRange(0),
        help=f"Number of {rows}; 0 for none.",
    )
