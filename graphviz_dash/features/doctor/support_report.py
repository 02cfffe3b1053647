"""A report for bug reports: versions, GPU and a summary of recordings, as Markdown."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from graphviz_dash import __version__
from graphviz_dash.bundle.read import is_bundle, read_manifest
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.model.run import Environment, ExecutionMode, FileRole, Manifest
from graphviz_dash.units import format_bytes

_PACKAGES: Final = (
    *("streamlit", "polars", "plotly", "numpy", "msgspec", "perfetto", "distributed"),
    *("torch", "cuda-python", "cupti-python", "viztracer"),
    *("vllm", "sglang", "transformers", "lightning", "pytorch-lightning"),
)
"""Packages whose versions matter; none of them is imported."""

_QUERY: Final = "name,driver_version,memory.total,compute_cap"
_TIMEOUT_S: Final = 30
_REDACTED_TEXT: Final = "(redacted)"


def format_support_report(bundle: Path | None, redact: bool) -> str:
    """Format the report on this machine and, with ``bundle``, on a run or an experiment.

    Args:
        redact: omit names of workloads, runs, files and parameters, and messages of errors.

    Raises:
        InputError: ``bundle`` holds no run, or a run cannot be read.
    """
    sections = [
        _format_list("graphviz-dash", _describe_machine()),
        _format_list("GPU", _list_gpus()),
    ]
    if bundle is not None:
        for number, path in enumerate(_find_runs(bundle), start=1):
            manifest = read_manifest(path)
            name = f"Run {number}" if redact else f"Run {path.name}"
            sections.append(_format_list(name, _describe_recording(manifest, redact)))
    return "\n".join(sections)


def _format_list(title: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"- {name}: {escape_control_characters(text)}" for name, text in rows]
    return "\n".join((f"### {escape_control_characters(title)}", "", *lines, ""))


def _describe_machine() -> list[tuple[str, str]]:
    rows = [
        ("graphviz-dash", __version__),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("System", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ("CPUs", str(os.cpu_count() or "unknown")),
    ]
    for package in _PACKAGES:
        try:
            rows.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return rows


def _list_gpus() -> list[tuple[str, str]]:
    """List the GPUs that nvidia-smi reports."""
    try:
        result = subprocess.run(
            ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        missing = isinstance(error, OSError)
        return [("GPU", f"none (nvidia-smi {'is not installed' if missing else 'failed'})")]
    rows = []
    for number, line in enumerate(result.stdout.splitlines()):
        rows.append((f"GPU {number}", f"{line.strip()} (name, driver, memory, compute capability)"))
    return rows or [("GPU", "none")]


def _find_runs(path: Path) -> list[Path]:
    """Find the run bundle at ``path``, or those in it; InputError if there is none."""
    if is_bundle(path):
        return [path]
    runs = sorted(filter(is_bundle, path.iterdir())) if path.is_dir() else []
    if not runs:
        raise InputError(path, "no run bundle", "the folder of a run bundle or of an experiment")
    return runs


def _describe_recording(manifest: Manifest, redact: bool) -> list[tuple[str, str]]:
    workload = manifest.workload
    files = Counter(entry.role for entry in manifest.files)
    total = sum(entry.bytes for entry in manifest.files)
    # Traces are not read here, and those of recorded programs have other steps than requested.
    has_passes = manifest.mode is not ExecutionMode.RECORDED
    traced_text = f", {workload.traced_iterations} traced" if has_passes else ""
    rows = [
        ("Mode", manifest.mode.value),
        ("Status", manifest.status),
        ("Format", f"version {manifest.version}, written by graphviz-dash {manifest.tool_version}"),
        ("Workload", _REDACTED_TEXT if redact else workload.name),
        ("Iterations", f"{workload.iterations} timed{traced_text}"),
        ("Rank", "none" if manifest.rank is None else str(manifest.rank)),
        ("Graphs", str(files[FileRole.GRAPH])),
        ("Files", f"{', '.join(sorted({role.value for role in files}))}; {format_bytes(total)}"),
    ]
    if not redact:
        rows.append(("Command", " ".join(manifest.command)))
        parameters = (f"{name}={value}" for name, value in workload.parameters.items())
        rows.append(("Parameters", ", ".join(parameters) or "none"))
    rows += _describe_environment(manifest.environment)
    for failure in manifest.failures:
        location = f" at {failure.location}" if failure.location else ""
        message = _REDACTED_TEXT if redact else f"{failure.message}{location}"
        rows.append((f"Failed in the {failure.stage.value} pass", f"{failure.error}: {message}"))
    for absent in manifest.absent:
        rows.append((f"Not available: {absent.fact}", _REDACTED_TEXT if redact else absent.reason))
    return rows


def _describe_environment(environment: Environment) -> list[tuple[str, str]]:
    gpu = environment.gpu
    rows = [
        ("Recorded on", None if gpu is None else f"{gpu.name} ({environment.gpu_count} visible)"),
        ("Driver", environment.driver),
        ("CUDA driver", environment.cuda_driver),
        ("CUDA runtime", environment.cuda_runtime),
        ("CUPTI", environment.cupti),
        ("torch", environment.torch),
        ("cuda-python", environment.cuda_bindings),
        ("NCCL", environment.nccl),
        ("Python", environment.python),
        ("System", environment.os),
    ]
    return [(name, text) for name, text in rows if text is not None]
