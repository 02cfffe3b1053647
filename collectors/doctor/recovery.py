"""Finish examinations whose command was killed, from the reports of their processes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from collectors.doctor.diagnose import read_examination, write_bundle
from collectors.program.recovery import list_running_processes
from graphviz_dash.bundle.staging import STAGING_SUFFIX, UNFINISHED_FILE, adopt_folder
from graphviz_dash.errors import GraphvizDashError, escape_control_characters
from graphviz_dash.model.run import WorkloadInfo

STAGING_NAME: Final = "doctor"
_RUN_NAME: Final = "doctor-killed"
"""Name of a finished run; the next examination uses the usual one."""


class UnfinishedExamination(msgspec.Struct, frozen=True):
    """Data of an unfinished examination for its bundles, besides the reports."""

    workload: WorkloadInfo
    command: tuple[str, ...]


def mark_unfinished(staging: Path, examination: UnfinishedExamination) -> None:
    """Keep ``staging`` for the next command in case this one is killed."""
    (staging / UNFINISHED_FILE).write_bytes(msgspec.json.encode(examination))


def finish_examinations(output: Path, report: Callable[[str], None]) -> None:
    """Write the runs of killed examinations in ``output``, except those whose programs still run.

    ``report`` receives a line for each.
    """
    for folder in sorted(output.glob(f".{STAGING_NAME}.*{STAGING_SUFFIX}")):
        with adopt_folder(folder) as success:
            if success and (folder / UNFINISHED_FILE).exists():
                report(escape_control_characters(_finish(folder, output)))


def _finish(folder: Path, output: Path) -> str:
    running = list_running_processes(folder)
    if running:
        return (
            f"An examination in {output} goes on without its command (process {running[0]}); the "
            "next doctor in this folder writes it."
        )
    paths = []
    try:
        examination = msgspec.json.decode(
            (folder / UNFINISHED_FILE).read_bytes(), type=UnfinishedExamination
        )
        content = read_examination(folder, None)
        for number, doctor_report in enumerate(content.reports):
            paths.append(_find_free_name(output))
            compilation = content.get_compilation(number)
            write_bundle(
                paths[-1],
                doctor_report,
                examination.workload,
                examination.command,
                folder,
                compilation,
            )
    except (GraphvizDashError, msgspec.MsgspecError, OSError) as error:
        return f"An examination in {folder} whose command was killed cannot be written: {error}"
    shutil.rmtree(folder, ignore_errors=True)
    return f"Examined, although its command was killed: {', '.join(map(str, paths))}"


def _find_free_name(output: Path) -> Path:
    target, number = output / _RUN_NAME, 2
    while target.exists() or target.is_symlink():
        target = output / f"{_RUN_NAME}-{number}"
        number += 1
    return target
