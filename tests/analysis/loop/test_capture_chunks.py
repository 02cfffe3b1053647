from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.ledger import SampleKind
from tests.ledgers import make_ledger, sample
from tests.loops import make_server

MIB = 1 << 20


def test_chunks_that_grow_during_captures_belong_to_executables(tmp_path: Path) -> None:
    run = load_run(make_server(tmp_path, nodes=1_600), traces=False)
    assert run.loop is not None
    costs = tuple(replace(cost, driver_bytes=2 * MIB) for cost in run.loop.graphs)
    outside, samples = 600, []
    # Kernels of the first capture, a chunk, kernels of another size, and nothing.
    for number, growth in enumerate((2, 2, 4, 0)):
        name = f"graph-{number}"
        samples.append(sample(3_000 + number, SampleKind.CAPTURE_BEGIN, outside, name=name))
        outside += growth
        samples.append(sample(3_000 + number, SampleKind.CAPTURE_END, outside, name=name))
    ledger = make_ledger(samples=tuple(samples))
    report = build_loop_report(replace(run, loop=replace(run.loop, graphs=costs), ledger=ledger))
    assert isinstance(report, LoopReport)
    (family,) = report.families
    assert family.node_bytes.graphs == 6
    assert family.node_bytes.bytes == (6 * 2 + 2) * MIB / (6 * 1_600)
