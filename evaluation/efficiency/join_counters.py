"""Join the tables of Nsight Compute that :mod:`evaluation.efficiency.count` describes.

python -m evaluation.efficiency.join_counters RESULTS OUT
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

BYTES: Final = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
)
FLOPS: Final = (
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    "sm__ops_path_tensor_src_fp16.sum",
    "sm__ops_path_tensor_src_tf32_dst_fp32.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
)
_MARK: Final = "gvd_ceiling_empty"
_KEY: Final = ("Kernel Name", "Block Size", "Grid Size")
_REACH: Final = 40
"""Rows in which the next kernel is searched."""

Row = dict[str, str]


def read_rows(file: Path) -> list[Row]:
    """Read the kernels of a table, without ncu's messages and the row of units."""
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", errors="replace") as lines:
        return list(csv.DictReader(line for line in lines if line.startswith('"')))[1:]


def split_programs(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Split a table at the empty kernels between programs."""
    program: list[Row] | None = None
    for row in rows:
        if _MARK in row["Kernel Name"]:
            if program is not None:
                yield program
            program = []
        elif program is not None:
            program.append(row)
    if program is not None:
        yield program


def join_rows(rows: Sequence[Row], others: Sequence[Row]) -> None:
    """Add the operations of the same kernels in another table, which omits some of them."""
    place = 0
    for row in rows:
        for index in range(place, min(place + _REACH, len(others))):
            if all(others[index][name] == row[name] for name in _KEY):
                row |= {name: others[index][name] for name in FLOPS}
                place = index + 1
                break


def main() -> None:
    results, target = map(Path, sys.argv[1:3])
    names = json.loads((results / "programs.json").read_text())
    bytes_tables = split_programs(read_rows(results / "bytes.csv"))
    flops_file = results / "flops.csv"
    flops_tables = split_programs(
        read_rows(flops_file if flops_file.exists() else results / "bytes.csv")
    )
    for name, rows, others in zip(names, bytes_tables, flops_tables, strict=True):
        join_rows(rows, others)
        with gzip.open(target / f"{name}-counters.csv.gz", "wt", newline="") as file:
            writer = csv.DictWriter(file, (*_KEY, *BYTES, *FLOPS), "", "ignore")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
