"""Run the examination on the GPU and write a bundle; started by ``graphviz-dash doctor``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click
import msgspec

from collectors.doctor.ask import examine_workload
from collectors.doctor.diagnose import Examination, examine_program, write_bundle
from collectors.doctor.recovery import (
    STAGING_NAME,
    UnfinishedExamination,
    finish_examinations,
    mark_unfinished,
)
from collectors.doctor.requests import DoctorRequest
from collectors.program.launcher import require_hook
from collectors.replays.ask import CheckedWorkload, prepare_check
from collectors.workloads import get_factory_path
from graphviz_dash.bundle.staging import Staging
from graphviz_dash.errors import GraphvizDashError, escape_control_characters
from graphviz_dash.model.doctor import DoctorReport
from graphviz_dash.model.run import WorkloadInfo

PROGRAM_FAILED = 7
"""Exit code if the report was written but the program failed."""


@click.command()
@click.option("--workload")
@click.option("--output", required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--set", "settings", multiple=True)
@click.option("--warmup", required=True, type=int)
@click.option("--steps", required=True, type=int)
@click.option("--seed", required=True, type=int)
@click.option("--replays", is_flag=True, help="Check the replays of a workload too.")
@click.option("--typed", required=True, help="The user's command line as a JSON list.")
@click.option(
    "--written",
    required=True,
    type=click.Path(path_type=Path),
    help="File that receives the paths of the bundles.",
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
def examine(
    workload: str | None,
    output: Path,
    settings: tuple[str, ...],
    warmup: int,
    steps: int,
    seed: int,
    replays: bool,
    typed: str,
    written: Path,
    program: tuple[str, ...],
) -> None:
    """Examine a workload or a program and write one bundle per process."""
    output.mkdir(parents=True, exist_ok=True)
    command = msgspec.json.decode(typed, type=tuple[str, ...])
    finish_examinations(output, partial(click.echo, err=True))
    with Staging(output, STAGING_NAME) as staging, ExitStack() as stack:
        scratch = staging.path
        replay_result: CheckedWorkload | None = None
        if workload is not None:
            factory = get_factory_path(workload)
            check: Callable[[], CheckedWorkload] | None = None
            if replays:
                request = DoctorRequest(factory, seed, warmup, steps, str(scratch), settings)
                # Its imports last as long as the examination.
                check = stack.enter_context(prepare_check(request, scratch))
            outcome = examine_workload(factory, seed, warmup, steps, scratch, settings)
            if not isinstance(outcome, DoctorReport):
                location_text = f" at {outcome.location}" if outcome.location else ""
                first = outcome.message.splitlines()[0] if outcome.message else ""
                raise GraphvizDashError(
                    f"The step fails even without a capture{location_text}: {outcome.error}: "
                    f"{escape_control_characters(first)}"
                )
            examination = Examination((outcome,), None)
            if check is not None:
                replay_result = check()
            info = WorkloadInfo(workload, factory, seed, warmup, steps, 0)
        else:
            require_hook(program, ("torch", "cuda.bindings", "msgspec"))
            name = next((Path(word).name for word in program if word.endswith(".py")), program[0])
            info = WorkloadInfo(name, " ".join(program), seed, warmup, steps, 0)
            mark_unfinished(scratch, UnfinishedExamination(info, command))
            examination = examine_program(program, warmup, steps, scratch)
        targets: list[Path] = []
        for number, report in enumerate(examination.reports):
            target = output / ("doctor" if number == 0 else f"doctor-{number}")
            compilation = examination.get_compilation(number)
            write_bundle(target, report, info, command, scratch, compilation, replay_result)
            targets.append(target)
        # The program owns stdout.
        written.write_text("".join(f"{target}\n" for target in targets), encoding="utf-8")
    if examination.program_exit is not None and examination.program_exit.returncode != 0:
        click.echo(
            f"The program ended with exit code {examination.program_exit.returncode}.", err=True
        )
        raise click.exceptions.Exit(PROGRAM_FAILED)


def main() -> int:
    """Run the command. Each error is one line on stderr."""
    try:
        result = examine.main(standalone_mode=False)
    except GraphvizDashError as error:
        click.echo(f"Error: {escape_control_characters(str(error))}", err=True)
        return error.exit_code
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(main())
