"""Show the Doctor page of an experiment without a doctor's report."""

from __future__ import annotations

from graphviz_dash.analysis.failures import format_cause, format_failure, is_refusal
from graphviz_dash.features.prediction.page.panel import format_blockers
from graphviz_dash.guidance.gaps import count_concurrent_ranks
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.doctor import format_doctor_command
from graphviz_dash.narrative.headline import join_names
from graphviz_dash.narrative.prediction import format_prediction_verdict
from graphviz_dash.ui.page.frame import SelectedExperiment
from graphviz_dash.ui.page.markup import escape_html, format_element, show_markup
from graphviz_dash.ui.state.results import get_comparison
from graphviz_dash.units import format_count


def show_undiagnosed(chosen: SelectedExperiment) -> None:
    """Show capture blockers from an eager trace, and how to create a report."""
    predicted = get_comparison(chosen.key).predicted_run
    if predicted is not None and not isinstance(predicted.graph_prediction, Missing):
        show_markup(
            format_element("h1", escape_html(f"Capture blockers in the trace of {predicted.name}"))
        )
        show_markup(
            format_element(
                "p", escape_html(format_prediction_verdict(predicted.graph_prediction)), "sentence"
            )
        )
        show_markup(format_blockers(predicted.graph_prediction))
    show_markup(_format_missing_report(chosen))


def _format_missing_report(chosen: SelectedExperiment) -> str:
    """Format how to create a report, for this workload or program if known."""
    runs = chosen.experiment.runs
    ranks = count_concurrent_ranks(runs)
    failed = [run for run in runs if run.manifest.failures]
    if failed:
        causes = [failure for run in failed for failure in run.manifest.failures]
        cause = format_cause(causes[0])
        failed_names = [
            run.name for run in failed if cause in map(format_cause, run.manifest.failures)
        ]
        reason = format_failure(join_names(failed_names), causes[0]).rstrip(".") + ". "
        if all(map(is_refusal, causes)):
            reason += "The doctor has no capture to examine."
        else:
            reason += (
                "The bundle has no doctor report: either it is older than the doctor, or the "
                "step also fails without a capture."
            )
    elif any(run.manifest.sources for run in runs):
        reason = "The runs were imported. The doctor has to run the program itself."
    elif not any(run.graphs for run in runs):
        reason = "No run captured a graph."
    elif ranks > 1:
        reason = (
            f"The doctor did not examine the {format_count(ranks)} ranks, because they ran "
            "together."
        )
    else:
        reason = (
            "All captures succeeded, so the doctor did not run. Run it to check that replays "
            "compute the same result as the step."
        )
    purpose = (
        "The doctor finds the first illegal call of a capture, and operations that replays "
        "silently skip."
    )
    if ranks > 1:
        purpose += " It examines one process only: run a step without collectives."
    return format_element(
        "div",
        format_element("h2", "No doctor report in this experiment")
        + format_element("p", escape_html(reason))
        + format_element("p", f"{purpose} On a machine with a CUDA GPU:")
        + format_element("pre", escape_html(format_doctor_command(runs[0]))),
        "empty",
    )
