"""One run on the terminal: facts, figures, graphs and their longest nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from graphviz_dash.analysis.comparison.result import RunComparison
from graphviz_dash.analysis.loop.family_report import build_loop_report
from graphviz_dash.analysis.metrics.run_metrics import MetricValue
from graphviz_dash.analysis.nodes.concurrency import Concurrency
from graphviz_dash.analysis.nodes.node_table import NodeTable
from graphviz_dash.analysis.replays.alignment_accuracy import measure_agreement
from graphviz_dash.app.compare.text.figures import (
    print_caveats,
    print_failures,
    print_figures,
    print_missing,
    print_remedies,
    print_tracebacks,
)
from graphviz_dash.cli.text.output import (
    build_cell,
    create_table,
    print_heading,
    print_more,
    print_rows,
    print_table,
    print_text,
)
from graphviz_dash.features.graph.text.graph import print_graph
from graphviz_dash.features.prediction.analysis.stream_prediction import ParallelPrediction
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Environment, Manifest, Run
from graphviz_dash.narrative.engine_steps import describe_eager_steps
from graphviz_dash.narrative.experiment import CAPTURE_COLUMNS, describe_steps, list_recording_notes
from graphviz_dash.narrative.headline import describe_run
from graphviz_dash.units import format_bytes, format_count, pluralize

_MAX_GRAPHS: Final = 16
"""Graphs with listed nodes: a server has hundreds."""


def print_run_summary(
    result: RunComparison, figures: Sequence[MetricValue], tables: Sequence[NodeTable]
) -> None:
    """Print the outcome, main facts, main figures, graphs and failures of a run."""
    manifest = result.run.manifest
    click.echo(describe_run(result))
    print_text(
        f"{manifest.workload.name}, mode {manifest.mode.value}, on "
        f"{manifest.environment.gpu_name}, {manifest.recording_day or 'date unknown'}"
    )
    print_figures([(result.name, figures)], brief=True)
    if tables:
        click.echo()
        nodes = sum(len(table.rows) for table in tables)
        graph_count = sum(graph.parent is None for graph in result.run.graphs)
        click.echo(f"{pluralize(graph_count, 'graph')} with {pluralize(nodes, 'node')}")
    print_failures([result.run])
    print_remedies([result.run], with_baseline=False)


def print_run(
    result: RunComparison,
    figures: Sequence[MetricValue],
    tables: Sequence[NodeTable],
    measured: Mapping[str, Concurrency | Missing],
    parallel: Mapping[str, ParallelPrediction | Missing],
    count: int,
) -> None:
    """Print a run, with ``figures`` that need no baseline. ``measured`` and ``parallel`` map graph
    ids to concurrency and multi-stream predictions. The ``count`` longest nodes are listed for each
    of the first graphs."""
    click.echo(describe_run(result))
    print_facts(result)
    print_recorded_captures(result)
    print_figures([(result.name, figures)])
    for table in tables[:_MAX_GRAPHS]:
        graph = table.graph.id
        print_graph(result.run, table, measured.get(graph), parallel.get(graph), count)
    print_more(len(tables), _MAX_GRAPHS)
    if lines := format_agreement(result.run):
        click.echo()
        for line in lines:
            print_text(line)
    print_failures([result.run])
    print_caveats([result])
    print_missing([(result.name, figures)])
    for fact in result.run.manifest.absent:
        print_text(f"  {result.name}: {fact.fact}: {fact.reason}")
    print_remedies([result.run], with_baseline=False)
    print_tracebacks(result.run)


def format_agreement(run: Run) -> list[str]:
    """Format the lines; none for a run without a node-id pass."""
    node_ids = run.node_ids
    if node_ids is None:
        return []
    lines = [
        f"Node-id pass: {format_count(len(node_ids.rows))} records of "
        f"{format_count(node_ids.steps)} steps from {node_ids.source}, "
        f"{format_count(node_ids.dropped_records)} lost"
    ]
    accuracy = measure_agreement(run)
    if accuracy is None or accuracy.share is None:
        return [*lines, "  no record names a node, so alignment cannot be checked"]
    lines.append(
        f"  alignment without the ids matches them in {format_count(accuracy.agreeing)} of "
        f"{format_count(accuracy.rows)} rows ({accuracy.share:.2%})"
    )
    lines += [
        f"  confidence {confidence:.2f}: {format_count(agreeing)} of {format_count(rows)} match"
        for confidence, (rows, agreeing) in sorted(accuracy.by_confidence.items(), reverse=True)
    ]
    lines += [f"  {format_count(n)} matched to {miss.value}" for miss, n in accuracy.misses.items()]
    if accuracy.unnamed:
        lines.append(f"  {format_count(accuracy.unnamed)} rows have ids of unknown nodes")
    return lines


_MAX_CAPTURES: Final = 20
"""Maximum number of listed captures: a server has hundreds."""


def print_facts(result: RunComparison) -> None:
    """Print workload, mode, status, machine, software and sources of a run."""
    run, manifest = result.run, result.run.manifest
    work, machine, rank = manifest.workload, manifest.environment, manifest.job_rank
    facts = {
        "workload": f"{work.name} ({work.factory}), "
        + ("a program with an unrecorded seed" if work.seed is None else f"seed {work.seed}"),
        **(
            {"parameters": ", ".join(f"{key}={value}" for key, value in work.parameters.items())}
            if work.parameters
            else {}
        ),
        "iterations": f"{work.warmup} warm-up, {work.iterations} clean, "
        f"{result.traced_steps} traced"
        if run.recording is None
        else describe_steps(run, run.recording, result.traced_steps),
        "mode": manifest.mode.value + ("" if rank is None else f", rank {format_count(rank)}"),
        **_format_ranks(manifest),
        "status": manifest.status,
        "command": " ".join(manifest.command),
        **({"recorded": manifest.recorded_at} if manifest.recorded_at else {}),
        "imported" if manifest.sources else "collected": (
            f"{manifest.created} by graphviz-dash {manifest.tool_version}"
        ),
        **_format_machine(machine),
        **_format_sources(manifest),
    }
    click.echo()
    table = create_table("", "")
    table.show_header = False
    for title, fact in facts.items():
        table.add_row(build_cell(title, "dim"), fact)
    print_table(table)


def _format_machine(machine: Environment) -> dict[str, str]:
    """Format machine and software; unknown facts are omitted or marked."""
    gpu = machine.gpu
    device = machine.gpu_name
    if gpu is not None:
        device += (
            f", sm_{gpu.compute_capability[0]}{gpu.compute_capability[1]}, "
            f"{gpu.multiprocessors} multiprocessors, {format_bytes(gpu.memory_bytes)}"
        )
    if machine.gpu_count is not None:
        device += f"; {machine.gpu_count} in this machine"
    cpus = "" if machine.cpu_count is None else f", {machine.cpu_count} CPUs"
    return {
        "GPU": device,
        "software": f"driver {machine.driver or 'unknown'} "
        f"(CUDA {machine.cuda_driver or 'unknown'}), CUDA {machine.cuda_runtime or 'unknown'}, "
        f"CUPTI {machine.cupti or 'unknown'}, torch {machine.torch or 'unknown'}, "
        f"Python {machine.python or 'unknown'}",
        "host": f"{machine.cpu or 'unknown'}{cpus}" + (f", {machine.os}" if machine.os else ""),
    }


def _format_sources(manifest: Manifest) -> dict[str, str]:
    """Format the imported files; empty if the run was collected."""
    if not manifest.sources:
        return {}
    files = [
        f"{source.name} ({source.kind}, {format_bytes(source.bytes)}"
        + (f"; {source.method})" if source.method else ")")
        for source in manifest.sources
    ]
    return {"imported from": ", ".join(files)}


def _format_ranks(manifest: Manifest) -> dict[str, str]:
    """Format the ranks that ran with this one; empty for a single process."""
    group = manifest.group
    if group is None or manifest.job_rank is None:
        return {}
    settings = ", ".join(f"{name}={value}" for name, value in sorted(group.settings.items()))
    return {
        "ranks": f"{group.world_size}, this one on GPU {group.device} of its machine, "
        f"NCCL {manifest.environment.nccl or 'unknown'}" + (f"; {settings}" if settings else "")
    }


def _list_eager_sentences(run: Run) -> tuple[str, ...]:
    report = build_loop_report(run)
    if isinstance(report, Missing) or report.engine is None:
        return ()
    return describe_eager_steps(report)


def print_recorded_captures(result: RunComparison) -> None:
    """Print the captures; nothing for a run that was not recorded."""
    run, recording = result.run, result.run.recording
    if recording is None:
        return
    print_heading(f"Recorded captures; step boundary: {recording.boundary or 'none'}")
    for note in (*list_recording_notes(run, result.traced_steps), *_list_eager_sentences(run)):
        print_text(note)
    if recording.graphs:
        print_rows(CAPTURE_COLUMNS, recording.graphs[:_MAX_CAPTURES])
        if len(recording.graphs) > _MAX_CAPTURES:
            click.echo(f"and {format_count(len(recording.graphs) - _MAX_CAPTURES)} more")
    else:
        click.echo("  no captures")
