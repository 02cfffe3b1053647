"""``graphviz-dash collect``. Imports no torch itself: the passes do, in processes of their own."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Final

import click

from collectors.collection.collect import collect as run_collection
from collectors.collection.collection import SUPPORTED, CollectedRun, Collection
from collectors.collection.progress import Event, is_failure, text_of
from collectors.collection.ranks import RankContext, this_rank
from collectors.collection.requirements import is_installed, require
from collectors.program.command import RecordingRequest, finish, record_program
from collectors.program.files import WINDOW_REPLAYS
from collectors.program.session import SKIP, STEPS
from collectors.workloads import BUILT_IN
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError, printable
from graphviz_dash.model.run import ExecutionMode, Failure

PROCESSES: Final = 5
"""Two medians of one mode differ more between processes than within one; of five, the interval that
a bootstrap gives held the true value in 92% of simulated cases and more."""

_INSTALL_NODE_IDS = "pip install 'graphviz-dash[collect,node-ids]'"


def _modes(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    supported = [mode.value for mode in SUPPORTED]
    for name in names:
        if name not in supported:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(supported)}")
    if not names:
        raise click.BadParameter(f"give at least one of {', '.join(supported)}")
    return names


_RECORDED = "recorded"


def _run_name(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", value):
        raise click.BadParameter(
            f"{value!r} is not a name of letters, digits, '_', '-' and '.', 64 at most"
        )
    return value


_HELP: Final = """\
Run a workload on the GPU in each mode, or a program as it is, and write what was measured.

For each mode: a clean pass, in which no profiler is ever attached; a capture pass under
torch.profiler, which reads the graph from the driver; a traced pass; and a memory pass under
torch's memory recorder. Each runs in a process of its own, and the clean pass in several, in turns
with those of the other modes: intervals are of the machine, not of one process. A mode that fails
is kept with its cause, and the others are collected. With --node-ids there is one more, under
cupti-python; with --observers the step is timed in six more processes, each with another tool
attached.

\b
Under torchrun each rank collects its own runs, all ranks pass by pass:

    torchrun --nproc-per-node 2 -m collectors --workload tp-transformer -o FOLDER

A program after ``--`` runs once, unchanged, with its own output and exit code: its captures,
replays and steps are recorded, and some of its steps traced.
"""


@click.command(help=_HELP)
@click.option(
    "--workload",
    metavar="NAME",
    help=f"{', '.join(BUILT_IN)}; or package.module:factory, your own.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the workload, such as layers=24; as often as needed.",
)
@click.option(
    "--modes",
    default="eager,graph",
    show_default=True,
    callback=_modes,
    metavar="LIST",
    help=f"Execution modes, separated by commas: {', '.join(mode.value for mode in SUPPORTED)}.",
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the experiment; each mode becomes a run bundle in it.",
)
@click.option(
    "--name",
    metavar="RUN",
    callback=_run_name,
    help="The run's name in the experiment, where there is one mode.  [default: the mode; of a "
    "program: recorded]",
)
@click.option(
    "--iterations",
    default=200,
    show_default=True,
    type=click.IntRange(1),
    help="Timed iterations of each mode, over all its processes.",
)
@click.option(
    "--processes",
    default=PROCESSES,
    show_default=True,
    type=click.IntRange(1),
    help="Processes in which each mode is timed, in turns with the other modes.",
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
    help="Iterations before anything is measured or captured.",
)
@click.option("--seed", default=0, show_default=True, type=int)
@click.option(
    "--timeout",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="End a pass that takes longer.  [default: 900 with several ranks, else never]",
)
@click.option(
    "--node-ids",
    is_flag=True,
    help="Also record replays with cupti-python, whose records name the node of each kernel.",
)
@click.option(
    "--observers",
    is_flag=True,
    help="Also time the step under each tool that could watch it: CUDA events, torch.profiler, "
    "CUPTI by graph and by node; and with nothing attached.",
)
@click.option(
    "--skip",
    default=SKIP,
    show_default=True,
    type=click.IntRange(0),
    help="Of a program: steps before the traced window, counted anew after each capture.",
)
@click.option(
    "--steps",
    default=STEPS,
    show_default=True,
    type=click.IntRange(0),
    help="Of a program: steps in the traced window; 0 for none.",
)
@click.option(
    "--window-replays",
    default=WINDOW_REPLAYS,
    show_default=True,
    type=click.IntRange(1),
    help="Of a program with a graph for each size: the traced window goes on until each of those "
    "replayed before has been replayed in it, for so many steps at most.",
)
@click.option(
    "--window-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="The same, for so long at most.  [default: as long as the steps take]",
)
@click.option(
    "--attribute",
    is_flag=True,
    help="Of a program: profile its captures too, so that nodes lead to their lines.",
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
    skip: int,
    steps: int,
    window_replays: int,
    window_seconds: float | None,
    attribute: bool,
    program: tuple[str, ...],
) -> None:
    """The command: collects a workload in passes, or records a program."""
    if name is not None and len(modes) > 1 and not program:
        raise click.BadParameter(f"one run, but {len(modes)} modes", param_hint="'--name'")
    context = this_rank()
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
        _record(
            RecordingRequest(
                program=program,
                output=output,
                name=name or _RECORDED,
                skip=skip,
                steps=steps,
                window_replays=window_replays,
                window_seconds=window_seconds,
                attribute=attribute,
                typed=_command(None),
            )
        )
        return
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
            command=_command(context),
            timeout_s=timeout,
            settings=settings,
            node_ids=node_ids,
            observers=observers,
            name=name,
        ),
        context,
    )


def _collect_workload(asked: Collection, context: RankContext | None) -> None:
    say = Speaker(context)
    runs = run_collection(asked, say.event, context)
    for run in runs:
        click.echo(run.path)
    say.line(f"Look at it: graphviz-dash compare {shlex.quote(str(asked.output))}")
    _exit_for(runs)


def _command(context: RankContext | None) -> tuple[str, ...]:
    if Path(sys.argv[0]).name != "__main__.py":
        return ("graphviz-dash", *sys.argv[1:])
    launcher = ("python",) if context is None else context.launcher
    return (*launcher, "-m", "collectors", *sys.argv[1:])


class Speaker:
    """Progress on stderr: all of rank 0's, of other ranks what failed."""

    def __init__(self, context: RankContext | None) -> None:
        self._quiet = context is not None and context.rank > 0
        self._prefix = "" if context is None else f"rank {context.rank}: "

    def event(self, event: Event) -> None:
        """Prints the line of an event."""
        if not self._quiet or is_failure(event):
            click.echo(self._prefix + text_of(event), err=True)

    def line(self, text: str) -> None:
        """Prints a line on rank 0."""
        if not self._quiet:
            click.echo(self._prefix + text, err=True)


def _record(request: RecordingRequest) -> None:
    # The program's output is its own: ours begins when it has ended.
    written, returncode = record_program(request, lambda line: click.echo(line, err=True))
    for path in written:
        click.echo(f"Recorded: {path}", err=True)
    raise click.exceptions.Exit(finish(returncode, bool(written)))


def _exit_for(runs: tuple[CollectedRun, ...]) -> None:
    failed = [run for run in runs if run.failures]
    if not failed:
        return
    causes = "; ".join(f"{run.path.name}: {_cause(run.failures[0])}" for run in failed)
    kept = ", ".join(run.path.name for run in runs if not run.failures) or "none"
    raise GraphvizDashError(
        printable(
            f"{len(failed)} of {len(runs)} runs failed. {causes}. Whole runs kept: {kept}; a "
            f"failed run keeps what its other passes measured, and its cause."
        )
    )


def _cause(failure: Failure) -> str:
    first = failure.message.splitlines()[0] if failure.message else ""
    return f"{failure.during.value} pass, {failure.error}: {first}".rstrip(" .")
