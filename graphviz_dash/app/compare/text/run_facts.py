"""Facts about a run, on the terminal: workload, machine, sources, ranks, recorded captures."""

from __future__ import annotations

from typing import Final

import click

from graphviz_dash.analysis.loop.family_report import build_loop_report
from graphviz_dash.cli.text.output import (
    ABSENT_TEXT,
    build_cell,
    create_table,
    print_heading,
    print_more,
    print_table,
)
from graphviz_dash.errors import escape_control_characters
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.run import Environment, Manifest, Run
from graphviz_dash.narrative.engine_steps import describe_eager_steps
from graphviz_dash.narrative.experiment import list_recording_notes
from graphviz_dash.units import format_bytes, format_count, format_ns

_MAX_CAPTURES: Final = 20
"""Maximum number of listed captures: a server has hundreds."""


def print_facts(run: Run) -> None:
    """Print workload, mode, status, machine, software and sources of a run."""
    manifest = run.manifest
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
        f"{work.traced_iterations} traced"
        if run.recording is None
        else f"{work.iterations} timed, {work.traced_iterations} traced, of "
        f"{run.recording.steps} recorded steps",
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
        table.add_row(build_cell(title, "dim"), build_cell(fact))
    print_table(table)


def _format_machine(machine: Environment) -> dict[str, str]:
    """Format machine and software of a run; unknown facts are omitted or marked."""
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
    """Format the files that the run was imported from; empty if it was collected."""
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
    """List sentences on the steps of an engine without a graph."""
    report = build_loop_report(run)
    if isinstance(report, Missing) or report.engine is None:
        return ()
    return describe_eager_steps(report)


def print_recorded_captures(run: Run) -> None:
    """Print the recorded captures; nothing for a run that was not recorded."""
    recording = run.recording
    if recording is None:
        return
    print_heading(f"Recorded captures; step boundary: {recording.boundary or 'none'}")
    for note in (*list_recording_notes(recording, run.loop), *_list_eager_sentences(run)):
        click.echo(escape_control_characters(note))
    captures = create_table(
        "capture", "at", "nodes", "replays", "in the window", "duration", "problem"
    )
    for column in (2, 3, 4, 5):
        captures.columns[column].justify = "right"
    for graph in recording.graphs[:_MAX_CAPTURES]:
        captures.add_row(
            build_cell(graph.graph),
            build_cell(graph.captured_at[0] if graph.captured_at else ABSENT_TEXT),
            build_cell(ABSENT_TEXT if graph.nodes is None else format_count(graph.nodes)),
            build_cell(format_count(graph.replays)),
            build_cell(format_count(graph.window_replays)),
            build_cell(format_ns(graph.capture_ns)),
            build_cell(graph.problem or ""),
        )
    if recording.graphs:
        print_table(captures)
        print_more(len(recording.graphs), _MAX_CAPTURES)
    else:
        click.echo("  no captures")
