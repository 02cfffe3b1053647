"""``graphviz-dash predict``: what CUDA graphs would gain, from an eager trace alone."""

from __future__ import annotations

from pathlib import Path

import click

from graphviz_dash.analysis.prediction.evaluation import predict_run, run_to_predict_from
from graphviz_dash.analysis.prediction.predict import Prediction, predict
from graphviz_dash.analysis.prediction.shipped_calibration import shipped_calibration
from graphviz_dash.bundle.calibration import read_calibration
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.cli.loading import loaded_experiment, loaded_run, loaded_trace
from graphviz_dash.cli.text.output import print_json
from graphviz_dash.errors import InputError
from graphviz_dash.features.prediction.document import prediction_document
from graphviz_dash.features.prediction.text import print_prediction
from graphviz_dash.guidance.narrative import why_no_trace
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.calibration import Calibration
from graphviz_dash.model.run import Run


@click.command("predict")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--calibration",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Of the GPU that is meant, from `graphviz-dash calibrate`.  [default: an H200's]",
)
@click.option(
    "--modules",
    default=12,
    show_default=True,
    type=click.IntRange(0),
    help="Modules to list, largest saving first; 0 for none.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON document (docs/reference/json.md)."
)
def predict_command(trace: Path, file: Path | None, modules: int, as_json: bool) -> None:
    """Predict what CUDA graphs would gain for the step in an eager TRACE.

    TRACE is a trace of torch.profiler (plain, gzip or zstd), a run bundle, or an experiment with an
    eager run. No graph and no GPU are needed. Gives the graphed step time and the speedup with
    intervals, the break-even, what would stop a capture, and which modules are worth a
    graph of their own.
    """
    calibration = read_calibration(file) if file else shipped_calibration()
    prediction = _prediction(trace, calibration)
    if isinstance(prediction, Missing):
        raise InputError(
            trace, prediction.reason, "a trace of torch.profiler with an eager step in it"
        )
    if as_json:
        print_json("predict", prediction_document(prediction, file is None))
        return
    print_prediction(prediction, modules, file is None)


def _prediction(path: Path, calibration: Calibration) -> Prediction | Missing:
    """The prediction for the eager trace, run or experiment at ``path``."""
    if not path.is_dir():
        return predict(loaded_trace(path), calibration)
    if is_bundle(path):
        return predict_run(_traced(loaded_run(path)), calibration)
    run = run_to_predict_from(loaded_experiment(path).runs)
    if run is None:
        raise InputError(path, "no eager run in it", "an experiment with one, a run, or a trace")
    return predict_run(_traced(run), calibration)


def _traced(run: Run) -> Run:
    if run.replay_trace is None:
        raise InputError(
            run.path,
            "no trace of its steps",
            "a run with a traced pass",
            " ".join(why_no_trace([run])),
        )
    return run
