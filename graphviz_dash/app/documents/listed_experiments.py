"""Listed experiments: rows of text and a JSON document each, from the cache or freshly read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from graphviz_dash.bundle.files import is_utf8
from graphviz_dash.exports.documents.values import display_path
from graphviz_dash.ingest.identity import measure_identity
from graphviz_dash.ingest.summaries import Summary, SummaryCache
from graphviz_dash.progress import report_subtask

_KIND: Final = "listing"
_BATCH: Final = 200
"""Number of experiments stored together."""


class ListedRun(Struct, frozen=True):
    """A row of the listing."""

    name: str
    """Name of the run."""
    workload: str
    mode: str
    """Execution mode with the rank, if there are several."""
    status: str
    step: str
    """Step time with its unit."""
    statistic: str
    """Statistic of the step, if it is not the median; empty otherwise."""
    speedup: str
    """Speedup over the baseline."""
    replays_match: bool
    """False if the replays compute a different result."""
    has_speedup: bool
    """True if the run has a speedup."""
    gpu: str
    """Name of the GPU."""
    date: str
    """Date of the recording, UTC; empty if unknown."""


class ListedExperiment(Struct, frozen=True):
    """An experiment in a listing."""

    rows: tuple[ListedRun, ...]
    """Readable runs, starting with the baseline."""
    document: msgspec.Raw
    """JSON of the experiment; its paths are those of the process that wrote it."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Names of unreadable bundles, each with its error."""

    def build_document(self, folder: Path) -> dict[str, Any]:
        """Build the JSON of the experiment in ``folder``, with paths as shown in this process."""
        document: dict[str, Any] = msgspec.json.decode(self.document)
        document["path"] = display_path(folder)
        for run in document["runs"]:
            run["path"] = display_path(folder / run["name"])
        return document


_DECODER: Final = msgspec.json.Decoder(ListedExperiment)


def list_experiments(
    root: Path, folders: Sequence[Path], cache: SummaryCache | None
) -> Iterator[tuple[Path, ListedExperiment]]:
    """Yield the experiments in ``folders``, which are below ``root``, in their order."""
    summaries = {} if cache is None else cache.load(_KIND, root)
    new_summaries: list[Summary] = []
    for number, folder in enumerate(folders):
        with report_subtask(number, len(folders)):
            identity = measure_identity(folder)
            digest, content = summaries.pop(str(folder), (b"", b""))
            experiment = _decode(content) if digest == identity.digest else None
            if experiment is None:
                experiment = _read(folder)
                if not experiment.unreadable and is_utf8(folder):
                    content = msgspec.json.encode(experiment)
                    new_summaries.append(Summary(str(folder), identity, content))
        if cache is not None and len(new_summaries) >= _BATCH:
            cache.store(_KIND, new_summaries)
            new_summaries.clear()
        yield folder, experiment
    if cache is not None:
        cache.store(_KIND, new_summaries)
        if summaries:
            cache.prune(_KIND, root, map(os.fspath, folders))


def _decode(content: bytes) -> ListedExperiment | None:
    try:
        return _DECODER.decode(content)
    except msgspec.MsgspecError:
        return None


def _read(folder: Path) -> ListedExperiment:
    # Imports the analysis, which a listing from the cache does not need.
    from graphviz_dash.analysis.comparison.compare import compare_runs
    from graphviz_dash.analysis.metrics.recorded_step import StepStatistic
    from graphviz_dash.app.documents.listing import build_listing_document
    from graphviz_dash.cli.light import load_light_experiment

    light = load_light_experiment(folder)
    comparison = compare_runs(light.experiment)
    rows = []
    for run in comparison.runs:
        manifest = run.run.manifest
        number = manifest.job_rank
        is_mean = run.step.metric.id == StepStatistic.MEAN.metric and run.step.value is not None
        rows.append(
            ListedRun(
                name=run.run.path.name,
                workload=manifest.workload.name,
                mode=f"{run.mode.value}{'' if number is None else f' rank {number}'}",
                status=manifest.status,
                step=run.step.text,
                statistic=StepStatistic.MEAN if is_mean else "",
                speedup=run.speedup.text,
                replays_match=run.replays_match,
                has_speedup=run.speedup.value is not None,
                gpu=manifest.environment.gpu_name,
                date=manifest.recording_day or "",
            )
        )
    document = build_listing_document([(comparison, light.unreadable)])
    (content,) = msgspec.json.decode(msgspec.json.encode(document), type=_Listing).experiments
    unreadable = tuple((bundle.name, error) for bundle, error in light.unreadable)
    return ListedExperiment(tuple(rows), content, unreadable)


class _Listing(Struct):
    """Document of a listing with its parts undecoded."""

    experiments: list[msgspec.Raw]
