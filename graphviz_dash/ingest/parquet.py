"""Exceptions of Polars for damaged Parquet files."""

from __future__ import annotations

from typing import Final

import polars as pl

PARQUET_ERRORS: Final[tuple[type[BaseException], ...]] = (
    OSError,
    ValueError,
    pl.exceptions.PolarsError,
    # Not an Exception: unexpected damage, in about one of 200 damaged files.
    pl.exceptions.PanicException,
)
"""Exceptions of Polars for a Parquet file that is missing, damaged or of another kind."""
