"""The ``graphviz-dash collect`` command. Only its subprocesses import torch."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Final

import click

from collectors.collection.collect import collect as run_collection
from collectors.collection.collection import SUPPORTED, CollectedRun, Collection
from collectors.collection.progress import get_first_line
from collectors.collection.ranks import RankContext, read_rank_context
from collectors.collection.requirements import is_installed, require
from collectors.program.command import RecordingRequest, get_exit_code, record_program
from collectors.program.session import SKIP, STEPS
from collectors.replays.ask import HANG_SECONDS
from collectors.replays.command import MarksRequest, mark_program
from collectors.replays.monitor import format_hang
from collectors.workloads import BUILT_IN
from graphviz_dash.errors import (
    GraphvizDashError,
    MissingRequirementError,
    escape_control_characters,
)
from graphviz_dash.model.recording import WINDOW_PAUSE_S, WINDOW_REPLAYS
from graphviz_dash.model.run import ExecutionMode, Failure

PROCESSES: Final = 5
"""Medians vary more between processes than within one. With five, bootstrap intervals covered the
true value in at least 92% of simulated cases."""

_INSTALL_NODE_IDS = "pip install 'graphviz-dash[collect,node-ids]'"


def _parse_modes(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    supported = [mode.value for mode in SUPPORTED]
    for name in names:
        if name not in supported:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(supported)}")
    if not names:
        raise click.BadParameter(f"give at least one of {', '.join(supported)}")
    return names


_RECORDED = "recorded"


def _parse_run_name(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", value):
        raise click.BadParameter(
            f"{value!r} is not a valid name: use at most 64 letters, digits, '_', '-' and '.'"
        )
    return value


_HELP: Final = """\
Measure a workload on the GPU in each mode, or record an unmodified program.

Each mode has a clean pass without any profiler, a capture pass, a traced pass and a memory pass,
all in separate processes. The clean pass runs in several, interleaved with the other modes. If a
mode fails, its cause is stored and collection continues.

\b
Under torchrun each rank collects its own runs; passes run together:

    torchrun --nproc-per-node 2 -m collectors --workload tp-transformer -o FOLDER

A program after ``--`` runs once, unchanged, and keeps its output and exit code. Its captures,
replays and steps are recorded, and some steps are traced.
"""


@click.command(help=_HELP)
@click.option(
    "--workload",
    metavar="NAME",
    help=f"{', '.join(BUILT_IN)}; or package.module:factory for your own.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Workload parameter, such as layers=24. Repeatable.",
)
@click.option(
    "--modes",
    default="eager,graph",
    show_default=True,
    callback=_parse_modes,
    metavar="LIST",
    help=f"Comma-separated execution modes: {', '.join(mode.value for mode in SUPPORTED)}.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Experiment folder. Each mode becomes a run bundle in it.",
)
@click.option(
    "--name",
    metavar="RUN",
    callback=_parse_run_name,
    help="Name of the run, if there is only one mode.  [default: the mode; for a "
    "program: recorded]",
)
@click.option(
    "--iterations",
    default=200,
    show_default=True,
    type=click.IntRange(1),
    help="Timed iterations per mode, across all its processes.",
)
@click.option(
    "--processes",
    default=PROCESSES,
    show_default=True,
    type=click.IntRange(1),
    help="Processes per mode for timing, interleaved with the other modes.",
)
@click.option(
    "--traced-iterations",
    default=20,
    show_default=True,
    type=click.IntRange(1),
    help="Iterations under the profiler.",
)
@click.option(
    "--warmup",
    default=11,
    show_default=True,
    type=click.IntRange(1),
    help="Iterations before measurement and capture.",
)
@click.option("--seed", default=0, show_default=True, type=int)
@click.option(
    "--timeout",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="Time limit per pass.  [default: 900 with several ranks, else none]",
)
@click.option(
    "--node-ids",
    is_flag=True,
    help="Also record replays with cupti-python to map each kernel to its graph node.",
)
@click.option(
    "--observers",
    is_flag=True,
    help="Also time the step under each profiling tool: CUDA events, torch.profiler, "
    "CUPTI by graph and by node; and without any tool.",
)
@click.option(
    "--limits/--no-limits",
    "limits",
    default=True,
    show_default=True,
    help="With --workload, record the limits of the GPU: measured once per version of driver and "
    "torch, in about 10 s.",
)
@click.option(
    "--skip",
    default=SKIP,
    show_default=True,
    type=click.IntRange(0),
    help="Program only: steps before the traced window, counted again after each capture.",
)
@click.option(
    "--steps",
    default=STEPS,
    show_default=True,
    type=click.IntRange(0),
    help="Program only: steps in the traced window; 0 disables it.",
)
@click.option(
    "--window-replays",
    default=WINDOW_REPLAYS,
    show_default=True,
    type=click.IntRange(1),
    help="Program with one graph per size: extend the traced window until each graph that was "
    "replayed before is replayed in it, by at most this many steps.",
)
@click.option(
    "--window-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Time limit of that extension.  [default: none]",
)
@click.option(
    "--window-pause",
    default=WINDOW_PAUSE_S,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Program only: longest pause for the traced window, estimated; the window closes before. "
    "One second holds about 38,000 events.",
)
@click.option(
    "--attribute",
    is_flag=True,
    help="Program only: also profile its captures to map nodes to source lines.",
)
@click.option(
    "--marks",
    is_flag=True,
    help="Program only: mark the progress of each replay instead of recording, to name the node "
    "of a crash or hang, and memory that a replay would use after its end.",
)
@click.option(
    "--hang-seconds",
    default=HANG_SECONDS,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="With --marks: time without progress after which a replay hangs.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="With --marks: compare memory with the allocator before each replay, not only from time "
    "to time.",
)
@click.option(
    "--memory-only",
    is_flag=True,
    help="With --marks: watch memory only, without marks in the graphs.",
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM ARGS...]")
def collect(
    workload: str | None,
    settings: tuple[str, ...],
    modes: tuple[str, ...],
    output: Path,
    name: str | None,
    iterations: int,
    processes: int,
    traced_iterations: int,
    warmup: int,
    seed: int,
    timeout: int | None,
    node_ids: bool,
    observers: bool,
    limits: bool,
    skip: int,
    steps: int,
    window_replays: int,
    window_seconds: float | None,
    window_pause: float,
    attribute: bool,
    marks: bool,
    hang_seconds: float,
    strict: bool,
    memory_only: bool,
    program: tuple[str, ...],
) -> None:
    """Collect a workload in passes, or record a program."""
    if name is not None and len(modes) > 1 and not program:
        raise click.BadParameter(f"one run, but {len(modes)} modes", param_hint="'--name'")
    context = read_rank_context(os.environ)
    require("torch", "cuda.bindings")
    if node_ids and not is_installed("cupti.cupti"):
        raise MissingRequirementError(
            f"--node-ids needs cupti-python, not installed here: {_INSTALL_NODE_IDS}"
        )
    if observers and context is not None:
        raise click.UsageError("--observers is for a single process, not for ranks.")
    if program:
        if workload is not None:
            raise click.UsageError("Give --workload or a program after --, not both.")
        if marks:
            _mark_program(
                MarksRequest(
                    program=program,
                    output=output,
                    name=name or _RECORDED,
                    hang_seconds=hang_seconds,
                    strict=strict,
                    marks=not memory_only,
                    command_line=_format_command(None),
                )
            )
            return
        _record_program(
            RecordingRequest(
                program=program,
                output=output,
                name=name or _RECORDED,
                skip=skip,
                steps=steps,
                window_replays=window_replays,
                window_seconds=window_seconds,
                window_pause=window_pause,
                attribute=attribute,
                typed=_format_command(None),
            )
        )
        return
    if marks:
        raise click.UsageError("--marks needs a program: -- python train.py ...")
    if workload is None:
        raise click.UsageError("Give --workload NAME, or a program: -- python train.py ...")
    _collect_workload(
        Collection(
            workload=workload,
            modes=tuple(ExecutionMode(mode) for mode in modes),
            output=output,
            iterations=iterations,
            processes=processes,
            traced_iterations=traced_iterations,
            warmup=warmup,
            seed=seed,
            command=_format_command(context),
            timeout_s=timeout,
            settings=settings,
            node_ids=node_ids,
            observers=observers,
            name=name,
            measures_limits=limits,
        ),
        context,
    )


def _collect_workload(request: Collection, context: RankContext | None) -> None:
    printer = ProgressPrinter(context)
    runs = run_collection(request, printer, context)
    for run in runs:
        click.echo(run.path)
    printer(f"View: graphviz-dash compare {shlex.quote(str(request.output))}")
    _raise_for_failures(runs)


def _format_command(context: RankContext | None) -> tuple[str, ...]:
    if Path(sys.argv[0]).name != "__main__.py":
        return ("graphviz-dash", *sys.argv[1:])
    launcher = ("python",) if context is None else context.launcher
    return (*launcher, "-m", "collectors", *sys.argv[1:])


class ProgressPrinter:
    """Prints progress on stderr: everything for rank 0, only failures for other ranks."""

    def __init__(self, context: RankContext | None) -> None:
        self._quiet = context is not None and context.rank > 0
        self._prefix = "" if context is None else f"rank {context.rank}: "

    def __call__(self, line: str, *, is_failure: bool = False) -> None:
        """Print a line."""
        if not self._quiet or is_failure:
            click.echo(self._prefix + line, err=True)


def _record_program(request: RecordingRequest) -> None:
    # The program owns the terminal until it ends.
    written, returncode = record_program(request, lambda line: click.echo(line, err=True))
    for path in written:
        click.echo(f"Recorded: {path}", err=True)
    raise click.exceptions.Exit(get_exit_code(returncode, bool(written)))


def _mark_program(request: MarksRequest) -> None:
    def report(line: str) -> None:
        click.echo(escape_control_characters(line), err=True)

    bundle, returncode = mark_program(request, report, format_hang)
    if bundle is not None:
        click.echo(f"Checked: {bundle}", err=True)
        click.echo(f"View: graphviz-dash doctor --bundle {shlex.quote(str(bundle))}", err=True)
    raise click.exceptions.Exit(get_exit_code(returncode, bundle is not None))


def _raise_for_failures(runs: tuple[CollectedRun, ...]) -> None:
    failed = [run for run in runs if run.failures]
    if not failed:
        return
    causes = "; ".join(f"{run.path.name}: {_describe_failure(run.failures[0])}" for run in failed)
    names = ", ".join(run.path.name for run in runs if not run.failures) or "none"
    raise GraphvizDashError(
        escape_control_characters(
            f"{len(failed)} of {len(runs)} runs failed. {causes}. Complete runs kept: {names}; a "
            f"failed run keeps the results of its other passes and the cause."
        )
    )


def _describe_failure(failure: Failure) -> str:
    return f"{failure.stage.value} pass, {failure.error}: {get_first_line(failure)}".rstrip(" .")
