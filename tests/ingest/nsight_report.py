"""Builds SQLite files as Nsight Systems exports them, after the schema in its user guide."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

PID, TID = 4242, 4243
GLOBAL_PID = (PID << 24) | (1 << 56)
GLOBAL_TID = GLOBAL_PID | TID

COLUMNS = {
    "StringIds": "id value",
    "TARGET_INFO_GPU": "id name totalMemory smCount computeMajor computeMinor",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end globalTid correlationId nameId returnValue",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId contextId greenContextId streamId"
    " correlationId globalPid demangledName shortName mangledName launchType registersPerThread"
    " gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory"
    " graphNodeId graphId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start end deviceId contextId streamId correlationId globalPid"
    " bytes copyKind srcKind dstKind graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start end deviceId contextId streamId correlationId globalPid"
    " value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start end deviceId contextId streamId correlationId"
    " globalPid graphId graphExecId",
    "NVTX_EVENTS": "start end eventType rangeId text globalTid textId domainId",
    "CUDA_GRAPH_NODE_EVENTS": "start end nameId globalTid graphNodeId originalGraphNodeId",
}


class Report:
    """Rows by table; a table exists if it has rows, as in a real export."""

    def __init__(self, *, without: tuple[str, ...] = (), pid: int = PID) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.without = without
        self.strings: dict[str, int] = {}
        self.global_pid = (pid << 24) | (1 << 56)

    def text(self, value: str) -> int:
        """The id of a text."""
        if value not in self.strings:
            self.strings[value] = len(self.strings) + 1
            self.add("StringIds", id=self.strings[value], value=value)
        return self.strings[value]

    def add(self, table: str, **values: Any) -> None:
        """A row; columns that are not given are null."""
        self.rows.setdefault(table, []).append(values)

    def gpu(self) -> None:
        """The device and the start of the session."""
        self.add(
            "TARGET_INFO_GPU",
            id=0,
            name="NVIDIA H200",
            totalMemory=150_109_880_320,
            smCount=132,
            computeMajor=9,
            computeMinor=0,
        )
        self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_790_857_026_000_000_000)

    def call(self, name: str, start: int, correlation: int, duration: int = 5_000) -> None:
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=start + duration,
            globalTid=self.global_pid | TID,
            correlationId=correlation,
            nameId=self.text(name),
            returnValue=0,
        )

    def kernel(self, name: str, start: int, duration: int, correlation: int, **more: Any) -> None:
        grid = {f"grid{axis}": size for axis, size in zip("XYZ", (8, 2, 1), strict=True)}
        block = {f"block{axis}": size for axis, size in zip("XYZ", (128, 1, 1), strict=True)}
        self.add(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start=start,
            end=start + duration,
            deviceId=0,
            contextId=1,
            streamId=7,
            correlationId=correlation,
            globalPid=self.global_pid,
            demangledName=self.text(name),
            shortName=self.text(name.partition("<")[0]),
            registersPerThread=32,
            staticSharedMemory=1024,
            dynamicSharedMemory=512,
            **(grid | block | more),
        )

    def merge(self, other: Report) -> None:
        """The rows of another report that shares no text with this one, of another process."""
        for table, rows in other.rows.items():
            if table != "StringIds":
                self.rows.setdefault(table, []).extend(rows)

    def write(self, path: Path) -> Path:
        with closing(sqlite3.connect(path)) as database:
            for table, rows in self.rows.items():
                columns = [one for one in COLUMNS[table].split() if one not in self.without]
                declared = ", ".join(f'"{one}"' for one in columns)
                database.execute(f'CREATE TABLE "{table}" ({declared})')
                marks = ", ".join("?" for _ in columns)
                database.executemany(
                    f'INSERT INTO "{table}" VALUES ({marks})',
                    [[row.get(one) for one in columns] for row in rows],
                )
            database.commit()
        return path


def node_level() -> Report:
    """Two launches of a graph of three nodes, traced by node, inside NVTX ranges."""
    report = Report()
    report.gpu()
    for step in range(2):
        at = step * 1_000_000
        report.add(
            "NVTX_EVENTS",
            start=at,
            end=at + 900_000,
            eventType=59,
            textId=report.text(f"step {step}"),
            globalTid=GLOBAL_TID,
        )
        report.call("cudaGraphLaunch_v10000", at + 1_000, 100 + step)
        for node, name in enumerate(("fill<float>", "gemm<float>")):
            report.kernel(
                name,
                at + 20_003 + node * 10_000,
                7_001,
                100 + step,
                graphNodeId=(6 << 32) | node,
                graphId=6,
            )
        report.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start=at + 50_000,
            end=at + 52_000,
            deviceId=0,
            contextId=1,
            streamId=7,
            correlationId=100 + step,
            globalPid=GLOBAL_PID,
            bytes=4096,
            copyKind=2,
            srcKind=2,
            dstKind=1,
            graphNodeId=(6 << 32) | 2,
        )
    return report
