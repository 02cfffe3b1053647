from __future__ import annotations

import pytest

from graphviz_dash.analysis.ledger.graphs import build_graph_ledgers
from graphviz_dash.analysis.ledger.memory import LedgerPart, build_memory_ledger
from graphviz_dash.analysis.ledger.report import build_ledger_report
from graphviz_dash.analysis.ledger.savings import SavingAction
from graphviz_dash.analysis.loop.family_report import LoopReport, build_loop_report
from graphviz_dash.analysis.memory.executables import (
    NodeBytes,
    estimate_executables,
    find_capture_chunks,
    measure_growth,
    measure_node_bytes,
)
from graphviz_dash.analysis.memory.report import NODE_BYTES
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.ledger import SampleKind
from tests.ledgers import make_ledger, sample
from tests.samples_once import SAMPLES

MIB = 1 << 20


def test_the_size_of_nodes_is_measured_if_executables_are_large() -> None:
    assert measure_node_bytes([(2 * MIB, 100)] * 3) == NodeBytes(NODE_BYTES, 0)
    assert measure_node_bytes([(10 * MIB, 4_096)] * 3) == NodeBytes(2_560, 3)
    # 30 MiB for 1,536 nodes are memory of other processes.
    assert measure_node_bytes([(10 * MIB, 512)] * 3) == NodeBytes(NODE_BYTES, 0)
    assert measure_node_bytes([]) == NodeBytes(NODE_BYTES, 0)


def test_a_chunk_in_a_later_capture_belongs_to_executables() -> None:
    outside, samples = 600, []
    # Kernels of the first capture, a chunk, and kernels of another size.
    for number, growth in enumerate((2, 2, 4)):
        name = f"graph-{number}"
        samples.append(sample(3_000 + number, SampleKind.CAPTURE_BEGIN, outside, name=name))
        outside += growth
        samples.append(sample(3_010 + number, SampleKind.CAPTURE_END, outside, name=name))
        outside += 6
        samples.append(sample(3_020 + number, SampleKind.INSTANTIATION, outside, name=name))
    ledger = make_ledger(samples=tuple(samples))
    assert find_capture_chunks(ledger) == {"graph-1": 2 * MIB}
    growth = measure_growth(ledger)
    assert growth == {"graph-0": 6 * MIB, "graph-1": 8 * MIB, "graph-2": 6 * MIB}
    memory = build_memory_ledger(ledger)
    assert memory is not None
    parts = memory.moments[-1].parts
    assert (parts[LedgerPart.EXECUTABLES], parts[LedgerPart.KERNELS]) == (20 * MIB, 6 * MIB)


@pytest.mark.parametrize("name", ["recorded-vllm", "recorded-sglang"])
def test_executables_have_one_size_and_savings_are_below_it(name: str) -> None:
    run = load_run(SAMPLES / name / "default-sizes", traces=False)
    assert run.ledger is not None
    report, memory = build_ledger_report(run), build_memory_ledger(run.ledger)
    loop = build_loop_report(run)
    assert report is not None
    assert memory is not None
    assert isinstance(loop, LoopReport)
    rows = build_graph_ledgers(run)
    total = sum(row.executable_bytes or 0 for row in rows)
    assert total == sum(measure_growth(run.ledger).values())
    assert memory.end_of_startup.parts[LedgerPart.EXECUTABLES] == total
    (saving,) = [s for s in report.savings if s.action is SavingAction.SHARE]
    assert 0 < saving.bytes < total
    # The ladder and the ledger have the same estimate of each graph.
    nodes = {row.graph: row.nodes or 0 for row in rows}
    estimates = estimate_executables(run, nodes)
    for family in loop.families:
        graphs = [graph for member in family.members for graph in member.member.graphs]
        by_family = sum(member.executable_bytes or 0 for member in family.members)
        assert sum(estimates[graph] for graph in graphs) == pytest.approx(
            by_family, abs=len(graphs)
        )
