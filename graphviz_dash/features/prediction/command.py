"""``graphviz-dash predict``: gain from CUDA graphs, predicted from an eager trace."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.prediction.evaluation import predict_run, select_prediction_run
from graphviz_dash.analysis.prediction.predict import Prediction, predict
from graphviz_dash.bundle.calibration import read_calibration
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.loading import open_experiment, open_run, open_run_trace
from graphviz_dash.cli.options import JSON_OPTION, add_count_option
from graphviz_dash.cli.text.brief import add_all_option, limit_output
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import InputError
from graphviz_dash.features.prediction.document import build_prediction_document
from graphviz_dash.features.prediction.text import print_prediction, print_prediction_summary
from graphviz_dash.guidance.narrative import explain_missing_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.model.run import Run


@click.command("predict")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--calibration",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Calibration of the target GPU, from `graphviz-dash calibrate`.  [default: H200]",
)
@add_count_option("--modules", 12, "modules that --all lists, largest saving first", "modules")
@add_all_option
@JSON_OPTION
def predict_command(
    trace: Path, file: Path | None, modules: int, everything: bool, as_json: bool
) -> None:
    """Predict the gain from CUDA graphs for the step in an eager TRACE.

    TRACE is a torch.profiler trace (plain, gzip or zstd), a run bundle, or an experiment with an
    eager run. No graph and no GPU are needed. Prints the graphed step time and the speedup with
    intervals, the break-even and capture blockers; with --all also the breakdown, idle time by
    cause and the modules that merit a separate graph.
    """
    calibration = read_calibration(file) if file else load_shipped_calibration()
    prediction = _predict_path(trace, calibration)
    if isinstance(prediction, Missing):
        raise InputError(trace, prediction.reason, "a torch.profiler trace with an eager step")
    if as_json:
        print_json("predict", build_prediction_document(prediction, file is None))
        return
    with limit_output(everything=everything):
        if everything:
            print_prediction(prediction, modules, file is None)
        else:
            print_prediction_summary(prediction)


def _predict_path(path: Path, calibration: Calibration) -> Prediction | Missing:
    """Accept an eager trace, run or experiment."""
    if not path.is_dir():
        return predict(open_run_trace(path), calibration)
    if is_bundle(path):
        return predict_run(_require_trace(open_run(path)), calibration)
    run = select_prediction_run(open_experiment(path).runs)
    if run is None:
        raise InputError(path, "no eager run", "an experiment with an eager run, a run, or a trace")
    return predict_run(_require_trace(run), calibration)


def _require_trace(run: Run) -> Run:
    if run.replay_trace is None:
        raise InputError(
            run.path,
            "no trace of its steps",
            "a run with a traced pass",
            " ".join(explain_missing_trace([run])),
        )
    return run
