"""Detection of captured copies with wrong rows or sizes.

An executable graph holds two nodes per captured copy, and newer drivers show both with the full
number of bytes (pytorch issue 191284). Eager copies have one row each. CUPTI 13.0 reports the size
of the last captured graph's copy for the copies of other graphs: on an H100, ten graphs of one
copy each, from 512 bytes on, all reported 512 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from graphviz_dash.ingest.kineto.correlations import mask_members
from graphviz_dash.model.trace import TraceProblem
from graphviz_dash.units import pluralize

_ON_DEVICE: Final = "DtoD"
_MAX_BYTES_PER_NS: Final = 30_000
"""Limit in GB/s, above the memory and cache bandwidth of GPUs."""


def find_impossible_sizes(gpu: pl.DataFrame) -> Iterator[TraceProblem]:
    """Report copies within the GPU that would be faster than any GPU's memory."""
    copies = gpu.filter((gpu["kind"] == "memcpy") & (gpu["dur"] > 0)).drop_nulls("bytes")
    copies = copies.filter(copies["name"].cast(pl.String).str.contains(_ON_DEVICE))
    rates = copies["bytes"] / copies["dur"]
    count = int((rates > _MAX_BYTES_PER_NS).sum())
    if count:
        yield TraceProblem(
            "impossible-copy-size",
            f"{pluralize(count, 'copy')} of {copies.height:,} within the GPU would move more than "
            f"{_MAX_BYTES_PER_NS:,} GB/s. CUPTI reports the size of another graph's copy, so bytes "
            "of replayed copies are unreliable.",
        )


def find_paired_copies(gpu: pl.DataFrame, graph_launches: pl.DataFrame) -> Iterator[TraceProblem]:
    """Report copies of ``graph_launches`` if all within the device come in equal pairs."""
    if not graph_launches.height:
        return
    columns = ["correlation", "device", "stream", "bytes"]
    copies = gpu.filter(gpu["kind"] == "memcpy")
    copies = copies.filter(mask_members(copies["correlation"], graph_launches["correlation"]))
    copies = copies.filter(copies["name"].cast(pl.String).str.contains(_ON_DEVICE))
    if not copies.height or copies.height % 2:
        return
    rows_by_stream = copies.sort("correlation", "device", "stream", "ts", maintain_order=True)
    values = np.stack([rows_by_stream[name].fill_null(-1).to_numpy() for name in columns])
    if (values[:, 0::2] != values[:, 1::2]).any():
        return
    yield TraceProblem(
        "paired-copies",
        f"All {pluralize(copies.height, 'copy')} within the GPU by graph launches come in pairs of "
        "equal size. Newer drivers show a captured copy as two rows with its full size each, so "
        "counts and bytes of copies may be twice the real ones.",
    )
