"""The Doctor page of an experiment without a doctor's report: what a trace shows, what to do."""

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
    """What an eager trace shows of a capture, and how to get a report."""
    predicted = comparison(chosen.key).predicted
    if predicted is not None and not isinstance(predicted.outlook, Missing):
        show(element("h1", text(f"What the trace of {predicted.name} shows")))
        show(element("p", text(prediction_verdict(predicted.outlook)), "sentence"))
        show(blockers_markup(predicted.outlook))
    show(_nothing(chosen))


def _nothing(chosen: Chosen) -> str:
    """What to do for a report, for this very workload or program where it is known."""
    runs = chosen.experiment.runs
    ranks = ranks_together(runs)
    failed = [run for run in runs if run.manifest.failures]
    if failed:
        causes = [failure for run in failed for failure in run.manifest.failures]
        cause = cause_text(causes[0])
        alike = [run.name for run in failed if cause in map(cause_text, run.manifest.failures)]
        lead = failure_text(names_in_common(alike), causes[0]).rstrip(".") + ". "
        if all(map(refused, causes)):
            lead += "Nothing was captured that a doctor could examine."
        else:
            lead += (
                "The bundle holds no doctor's report: it was recorded before there was one, or the "
                "step fails without a capture too."
            )
    elif any(run.manifest.sources for run in runs):
        lead = "Its runs were imported: a doctor has to run the program itself."
    elif not any(run.graphs for run in runs):
        lead = "No run of it captured a graph."
    elif ranks > 1:
        lead = f"Its {format_count(ranks)} ranks ran together, so none was examined."
    else:
        lead = (
            "All captures succeeded, so none was examined. Whether replays do what the step does "
            "is known once a doctor has compared them."
        )
    what = (
        "The doctor finds the first illegal call of a capture, and what replays would silently not "
        "do."
    )
    if ranks > 1:
        what += (
            " It does not examine ranks, only a step that runs in one process too, without its "
            "collectives."
        )
    return element(
        "div",
        element("h2", "No doctor's report in this experiment")
        + element("p", text(lead))
        + element("p", f"{what} On a machine with a CUDA GPU:")
        + element("pre", text(doctor_command(runs[0]))),
        "empty",
    )
