"""A run as JSON: its work, environment, group and graphs."""

from __future__ import annotations

from collections import Counter

from graphviz_dash.analysis.diff.graph_pair import check_device_launch
from graphviz_dash.analysis.nodes.concurrency import Concurrency, p99_and_slack
from graphviz_dash.analysis.nodes.node_table import NodeTable, longest_first
from graphviz_dash.exports.documents.graph import concurrency_document
from graphviz_dash.exports.documents.values import number
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.graph import CapturedGraph
from graphviz_dash.model.run import Manifest, Run, StepWork


def work_document(work: StepWork | None) -> dict[str, object] | None:
    """What a typical step does; None where no step was traced."""
    if work is None:
        return None
    return {
        "model_flops": work.model_flops,
        "tokens": work.tokens,
        "precision": work.precision,
        "formula": work.formula,
    }


def environment_document(run: Run) -> dict[str, object]:
    """The machine and the versions that a run was collected on."""
    machine = run.manifest.environment
    return {
        "gpu": machine.gpu.name if machine.gpu else None,
        "compute_capability": list(machine.gpu.compute_capability) if machine.gpu else None,
        "gpu_memory": machine.gpu.memory_bytes if machine.gpu else None,
        "multiprocessors": machine.gpu.multiprocessors if machine.gpu else None,
        "gpu_count": machine.gpu_count,
        "driver": machine.driver,
        "cuda_driver": machine.cuda_driver,
        "cuda_runtime": machine.cuda_runtime,
        "cupti": machine.cupti,
        "torch": machine.torch,
        "cuda_bindings": machine.cuda_bindings,
        "python": machine.python,
        "cpu": machine.cpu,
        "cpu_count": machine.cpu_count,
        "os": machine.os,
        "nccl": machine.nccl,
    }


def group_document(manifest: Manifest) -> dict[str, object] | None:
    """The group of ranks that a run belongs to; None for a run of one process."""
    group = manifest.group
    if group is None:
        return None
    return {
        "world_size": group.world_size,
        "device": group.device,
        "settings": group.settings,
    }


def _device_launch_document(run: Run, graph: CapturedGraph) -> dict[str, object]:
    found = check_device_launch(run, graph.id)
    said = graph.device_launch
    return {
        "verdict": found.verdict.value,
        **{
            title: [
                {"rule": one.rule, "reason": one.reason, "graph": one.graph, "node": one.node}
                for one in findings
            ]
            for title, findings in (("violations", found.violations), ("unknown", found.unknown))
        },
        "driver": {"result": said.result, "graph": said.graph, "node": said.node}
        if said is not None
        else None,
    }


def graph_document(
    run: Run, table: NodeTable, found: Concurrency | Missing | None, count: int
) -> dict[str, object]:
    """A captured graph with its ``count`` slowest nodes."""
    graph = table.graph
    return {
        "id": graph.id,
        "parent": {"graph": graph.parent[0], "node": graph.parent[1]} if graph.parent else None,
        "read_by": graph.read_by,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "kinds": dict(Counter(node.kind.value for node in graph.nodes).most_common()),
        "disabled": [node.index for node in graph.nodes if node.enabled is False],
        "device_launch": _device_launch_document(run, graph) if graph.parent is None else None,
        "attribution": {
            "attributed": table.attributed,
            "launches": table.capture_launches,
            "methods": dict(Counter(row.origin.method for row in table.rows).most_common()),
        },
        "matching": {
            "replays": table.replays,
            "gpu_rows": table.replay_kernels,
            "matched": table.matched_kernels,
            "methods": dict(Counter(row.times.method for row in table.rows).most_common()),
            "pass": table.timed_in,
        },
        "concurrency": None
        if found is None or isinstance(found, Missing)
        else concurrency_document(found),
        "concurrency_reason": found.reason if isinstance(found, Missing) else None,
        "longest_nodes": [
            {
                "index": row.node.index,
                "kind": row.node.kind.value,
                "name": row.node.label,
                "category": row.category.value,
                "median": number(row.times.median_ns),
                "p99": spread[0],
                "slack": spread[1],
                "samples": row.times.samples,
                "op": row.origin.op,
                "module": row.origin.module,
                "source": row.origin.source,
            }
            for row, spread in (
                (row, p99_and_slack(found, table, row)) for row in longest_first(table)[:count]
            )
        ],
    }
