"""What a run is, on the terminal: workload, machine, sources, ranks, and what the recorder saw."""

from __future__ import annotations

from typing import Final

import click

from graphviz_dash.cli.text.output import (
    ABSENT,
    cell,
    plain_table,
    print_heading,
    print_more,
    print_table,
)
from graphviz_dash.errors import printable
from graphviz_dash.model.run import Environment, Manifest, Run
from graphviz_dash.narrative.experiment import recording_notes
from graphviz_dash.units import format_bytes, format_count, format_ns

_CAPTURES: Final = 20
"""Captures that are listed: a server has hundreds."""


def print_facts(run: Run) -> None:
    """Prints what a run is: workload, mode, status, machine, software, sources."""
    manifest = run.manifest
    work, machine, rank = manifest.workload, manifest.environment, manifest.rank_of_several
    facts = {
        "workload": f"{work.name} ({work.factory}), "
        + ("a program with a seed of its own" if work.seed is None else f"seed {work.seed}"),
        **(
            {"parameters": ", ".join(f"{key}={value}" for key, value in work.parameters.items())}
            if work.parameters
            else {}
        ),
        "iterations": f"{work.warmup} warm-up, {work.iterations} clean, "
        f"{work.traced_iterations} traced"
        if run.recording is None
        else f"{work.iterations} timed, {work.traced_iterations} traced, of "
        f"{run.recording.steps} steps seen",
        "mode": manifest.mode.value + ("" if rank is None else f", rank {format_count(rank)}"),
        **_ranks(manifest),
        "status": manifest.status,
        "command": " ".join(manifest.command),
        **({"recorded": manifest.recorded} if manifest.recorded else {}),
        "imported" if manifest.sources else "collected": (
            f"{manifest.created} by graphviz-dash {manifest.tool_version}"
        ),
        **_machine(machine),
        **_sources(manifest),
    }
    click.echo()
    table = plain_table("", "")
    table.show_header = False
    for title, fact in facts.items():
        table.add_row(cell(title, "dim"), cell(fact))
    print_table(table)


def _machine(machine: Environment) -> dict[str, str]:
    """Where the run was made; what is not known is left out or called so."""
    gpu = machine.gpu
    device = machine.gpu_name
    if gpu is not None:
        device += (
            f", sm_{gpu.compute_capability[0]}{gpu.compute_capability[1]}, "
            f"{gpu.multiprocessors} multiprocessors, {format_bytes(gpu.memory_bytes)}"
        )
    if machine.gpu_count is not None:
        device += f"; {machine.gpu_count} in the machine"
    cpus = "" if machine.cpu_count is None else f", {machine.cpu_count} CPUs"
    return {
        "GPU": device,
        "software": f"driver {machine.driver or 'unknown'} "
        f"(CUDA {machine.cuda_driver or 'unknown'}), CUDA {machine.cuda_runtime or 'unknown'}, "
        f"CUPTI {machine.cupti or 'unknown'}, torch {machine.torch or 'unknown'}, "
        f"Python {machine.python or 'unknown'}",
        "host": f"{machine.cpu or 'unknown'}{cpus}" + (f", {machine.os}" if machine.os else ""),
    }


def _sources(manifest: Manifest) -> dict[str, str]:
    """The files that the run was imported from; empty for one that was collected."""
    if not manifest.sources:
        return {}
    files = [
        f"{source.name} ({source.kind}, {format_bytes(source.bytes)}"
        + (f"; {source.method})" if source.method else ")")
        for source in manifest.sources
    ]
    return {"imported from": ", ".join(files)}


def _ranks(manifest: Manifest) -> dict[str, str]:
    """The ranks that ran with this one; empty for a single process."""
    group = manifest.group
    if group is None or manifest.rank_of_several is None:
        return {}
    settings = ", ".join(f"{name}={value}" for name, value in sorted(group.settings.items()))
    return {
        "ranks": f"{group.world_size}, this one on GPU {group.device} of its machine, "
        f"NCCL {manifest.environment.nccl or 'unknown'}" + (f"; {settings}" if settings else "")
    }


def print_recorded_captures(run: Run) -> None:
    """Prints the captures that the recorder saw; nothing for a run that was not recorded."""
    recording = run.recording
    if recording is None:
        return
    print_heading(f"What the recorder saw; a step ended at: {recording.boundary or 'nothing'}")
    for note in recording_notes(recording):
        click.echo(printable(note))
    captures = plain_table("capture", "at", "nodes", "replays", "in the window", "took", "problem")
    for column in (2, 3, 4, 5):
        captures.columns[column].justify = "right"
    for graph in recording.graphs[:_CAPTURES]:
        captures.add_row(
            cell(graph.graph),
            cell(graph.captured_at[0] if graph.captured_at else ABSENT),
            cell(ABSENT if graph.nodes is None else format_count(graph.nodes)),
            cell(format_count(graph.replays)),
            cell(format_count(graph.window_replays)),
            cell(format_ns(graph.capture_ns)),
            cell(graph.problem or ""),
        )
    if recording.graphs:
        print_table(captures)
        print_more(len(recording.graphs), _CAPTURES)
    else:
        click.echo("  no capture")
