"""Show the Doctor page of an experiment without a doctor's report."""

from __future__ import annotations

from graphviz_dash.analysis.failures import cause_text, failure_text, refused
from graphviz_dash.features.prediction.page.panel import blockers_markup
from graphviz_dash.guidance.gaps import ranks_together
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.doctor import doctor_command
from graphviz_dash.narrative.headline import names_in_common
from graphviz_dash.narrative.prediction import prediction_verdict
from graphviz_dash.ui.page.frame import Chosen
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.state.results import comparison
from graphviz_dash.units import format_count


def undiagnosed(chosen: Chosen) -> None:
    """Show capture blockers from an eager trace, and how to create a report."""
    predicted = comparison(chosen.key).predicted
    if predicted is not None and not isinstance(predicted.outlook, Missing):
        show(element("h1", text(f"Capture blockers in the trace of {predicted.name}")))
        show(element("p", text(prediction_verdict(predicted.outlook)), "sentence"))
        show(blockers_markup(predicted.outlook))
    show(_nothing(chosen))


def _nothing(chosen: Chosen) -> str:
    """Format how to create a report, for this workload or program if known."""
    runs = chosen.experiment.runs
    ranks = ranks_together(runs)
    failed = [run for run in runs if run.manifest.failures]
    if failed:
        causes = [failure for run in failed for failure in run.manifest.failures]
        cause = cause_text(causes[0])
        failed_names = [
            run.name for run in failed if cause in map(cause_text, run.manifest.failures)
        ]
        reason = failure_text(names_in_common(failed_names), causes[0]).rstrip(".") + ". "
        if all(map(refused, causes)):
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
    return element(
        "div",
        element("h2", "No doctor report in this experiment")
        + element("p", text(reason))
        + element("p", f"{purpose} On a machine with a CUDA GPU:")
        + element("pre", text(doctor_command(runs[0]))),
        "empty",
    )
