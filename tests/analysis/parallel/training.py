"""A shipped step with its captured graph."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from functools import cache
from pathlib import Path
from typing import TypeAlias

import msgspec

from graphviz_dash.analysis.nodes.concurrency import Concurrency, analyze_run
from graphviz_dash.analysis.nodes.node_table import NodeTable, build_table
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.parallel import (
    Access,
    Attempt,
    Operator,
    ParallelCheck,
    ParallelPlan,
    Storage,
    Verdict,
)
from graphviz_dash.model.run import FORMAT_VERSION, Run

SAMPLES = Path(__file__).parents[3] / "sample_traces"
NODES = 322

Training: TypeAlias = tuple[Run, NodeTable, Concurrency]


@cache
def training() -> Training:
    """A captured transformer step: 322 nodes in a line, with measurements."""
    run = load_run(SAMPLES / "transformer-train" / "graph")
    table = build_table(run, "graph-0")
    concurrency = analyze_run(run, [table])["graph-0"]
    assert isinstance(concurrency, Concurrency)
    return run, table, concurrency


def chains(count: int, nodes: int = NODES) -> tuple[Operator, ...]:
    """Operators of one node each, interleaved over ``count`` chains with separate memory."""
    return tuple(
        Operator("aten.add_.Tensor", (Access(index % count, 0, 64, True),), 1)
        for index in range(nodes)
    )


def chain_plan(count: int) -> ParallelPlan:
    """Plan these chains on one stream each."""
    operators = chains(count)
    return ParallelPlan(
        operators=operators,
        storages=tuple(Storage(64, (16,), "float32", None) for _ in range(count)),
        streams=tuple(index % count for index in range(NODES)),
        waits=((),) * NODES,
        same_stream_gap_ns=300,
        cross_stream_gap_ns=1500,
        serial=Attempt(1, 1, 0, 1_650_000, (1_640_000, 1_660_000, 1_650_000)),
        attempts=(
            Attempt(2, 2, 0, 900_000),
            Attempt(count, count, 0, 800_000, (790_000, 810_000, 800_000)),
        ),
        selected_streams=count,
        verdict=Verdict.FASTER,
        memory_limit_bytes=None,
        check=ParallelCheck(20, 5, 5, 3, 20, 0.0, 0.0),
    )


def write_parallel_experiment(folder: Path, plan: ParallelPlan) -> Path:
    """Write the shipped experiment and a run whose graph was captured by ``plan``."""
    shutil.copytree(SAMPLES / "transformer-train", folder)
    run = folder / "parallel"
    shutil.copytree(folder / "graph", run)
    content = gzip.compress(msgspec.json.encode(plan), mtime=0)
    (run / "parallel.json.gz").write_bytes(content)
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["version"], manifest["mode"] = FORMAT_VERSION, "parallel"
    manifest["files"].append({
        "path": "parallel.json.gz",
        "role": "parallel",
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    })  # fmt: skip
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
