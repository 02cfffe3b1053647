"""What goes wrong with Parquet files that are not as they were written."""

from __future__ import annotations

from typing import Final

import polars as pl

UNREADABLE: Final[tuple[type[BaseException], ...]] = (
    OSError,
    ValueError,
    pl.exceptions.PolarsError,
    # No Exception: damage that Polars' reader did not expect, about one in 200 damaged files.
    pl.exceptions.PanicException,
)
"""What Polars raises for a Parquet file that is gone, damaged or of another kind."""
