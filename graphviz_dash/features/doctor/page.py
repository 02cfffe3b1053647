"""Doctor: why captures fail, and which operations replays would silently skip."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.doctor import (
    CaptureOutcome,
    Diagnosis,
    FindingGroup,
    diagnose,
    omit_unexplained,
)
from graphviz_dash.analysis.failures import format_cause, format_failure, is_refusal
from graphviz_dash.analysis.replay_check import diagnose_replays
from graphviz_dash.features.doctor.code_markup import format_code
from graphviz_dash.features.doctor.replay_markup import format_replay_check
from graphviz_dash.features.prediction.page.panel import format_blockers
from graphviz_dash.features.torch_compile.page.compile_causes import show_compile_diagnosis
from graphviz_dash.guidance.gaps import count_concurrent_ranks
from graphviz_dash.model.absence import Missing
from graphviz_dash.model.doctor import DetectionMethod, OutputCheck, Severity
from graphviz_dash.model.rules import RULES
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.doctor import (
    describe_output_difference,
    format_caller,
    format_doctor_command,
    format_doctor_verdict,
    format_evidence_value,
    format_other_places,
)
from graphviz_dash.narrative.headline import join_names
from graphviz_dash.narrative.prediction import format_prediction_verdict, list_partial_bases
from graphviz_dash.ui.page.frame import SelectedExperiment, load_selected_experiment, select_run
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_details,
    format_element,
    format_text,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.rules import (
    format_doctor_rules,
    format_finding_details,
    format_rule_advice,
    format_rule_id,
)
from graphviz_dash.ui.page.widgets import format_facts
from graphviz_dash.ui.state.results import get_comparison
from graphviz_dash.units import format_count, pluralize

_OUTCOME_LABELS: Final = {
    CaptureOutcome.ILLEGAL: "Capture fails",
    CaptureOutcome.SILENT: "Replays differ",
    CaptureOutcome.HEALTHY: "Healthy",
    CaptureOutcome.UNSEEN: "Nothing captured",
}
_EVIDENCE_LABELS: Final = {
    DetectionMethod.CAPTURE: "reproduced in a capture",
    DetectionMethod.EAGER: "seen in eager steps",
    DetectionMethod.REPLAY: "seen in a replay",
}
_FIRST_OUTPUTS: Final = 3
"""Differing tensors before the others unfold."""
_MAX_OUTPUTS: Final = 12


def render() -> None:
    """Render the page."""
    selection = load_selected_experiment(warned=True)
    runs = [
        run
        for run in selection.experiment.runs
        if run.doctor is not None or run.compilation is not None or run.replay_check is not None
    ]
    if not runs:
        show_undiagnosed(selection)
        return
    default = next((run.name for run in runs if run.manifest.failures), None)
    default = default or next((run.name for run in runs if run.doctor is not None), None)
    default = default or next((run.name for run in runs if run.replay_check is not None), None)
    run = select_run(runs, default=default) if len(runs) > 1 else runs[0]
    replays = None if run.replay_check is None else diagnose_replays(run.replay_check)
    if replays is not None and replays.fault_count:
        show_markup(format_replay_check(replays))
    if run.doctor is not None:
        diagnosis = diagnose(run.doctor)
        has_cause = replays is not None and replays.has_cause
        _show_diagnosis(run, omit_unexplained(diagnosis) if has_cause else diagnosis)
    if replays is not None and not replays.fault_count:
        show_markup(format_replay_check(replays))
    if run.compilation is not None:
        show_compile_diagnosis(selection, run.name)


def _show_diagnosis(run: Run, diagnosis: Diagnosis) -> None:
    show_markup(_format_verdict(run, diagnosis))
    for title, groups in (
        ("Illegal in a capture", diagnosis.illegal_groups),
        ("Silently wrong on replay", diagnosis.silent_groups),
        ("Memory is lost", diagnosis.costly_groups),
    ):
        if groups:
            count = format_element("span", format_count(len(groups)), "count")
            show_markup(format_element("h2", escape_html(title) + count, "doctor-part"))
            show_markup(*(_format_group(group) for group in groups))
    show_markup(_format_outputs(diagnosis), format_doctor_rules(diagnosis))


def _format_verdict(run: Run, diagnosis: Diagnosis) -> str:
    report = diagnosis.report
    kind = {CaptureOutcome.ILLEGAL: "illegal", CaptureOutcome.SILENT: "silent"}.get(
        diagnosis.outcome, "sound"
    )
    pairs = [
        ("Workload" if report.subject == "workload" else "Program", run.manifest.workload.name),
        ("Captures tried", format_count(report.attempts)),
        ("Graph nodes", format_count(report.nodes)),
        ("Operators per step", format_count(report.operators)),
        ("Eager steps compared", format_count(report.steps)),
        ("Replays", format_count(report.replays)),
    ]
    return format_element(
        "section",
        format_text("span", _OUTCOME_LABELS[diagnosis.outcome], f"badge {kind}")
        + format_text("p", format_doctor_verdict(diagnosis), "doctor-verdict")
        + format_facts(pairs),
        f"doctor-hero {kind}",
    )


def _format_group(group: FindingGroup) -> str:
    finding = group.first
    rule = RULES[finding.rule]
    kind = "illegal" if finding.severity is Severity.ILLEGAL else "silent"
    badge = "first illegal call" if finding.ends_capture else finding.severity.value
    head = format_element(
        "header",
        format_text("span", badge, f"badge {kind}")
        + format_text("h3", rule.title)
        + format_rule_id(rule),
    )
    details = format_code(finding.location) if finding.location else ""
    if finding.message:
        details += format_text("p", finding.message, "doctor-error")
    facts, evidence = _format_facts(group), _EVIDENCE_LABELS[finding.detected_by]
    title = evidence[:1].upper() + evidence[1:]
    # Without a line the facts are the finding.
    details += format_finding_details(title, facts) if finding.location else facts
    body = format_element("div", details, "found") + format_element(
        "div", format_rule_advice(rule), "advice"
    )
    return format_element(
        "article", head + format_element("div", body, "columns"), f"doctor-card {kind}"
    )


def _format_facts(group: FindingGroup) -> str:
    finding = group.first
    rows = [
        ("Program line", format_caller(finding)),
        ("Operator", finding.op),
        ("Stream", finding.stream),
        ("Thread", finding.thread),
        (
            "Occurrences per step",
            None if finding.calls_per_step is None else format_count(finding.calls_per_step),
        ),
        *((evidence.name, format_evidence_value(evidence)) for evidence in finding.evidence),
        ("Evidence", None if finding.location else _EVIDENCE_LABELS[finding.detected_by]),
        ("Also at", ", ".join(format_other_places(group)) or None),
    ]
    cells = "".join(
        format_element("dt", _format_label(name)) + format_text("dd", value)
        for name, value in rows
        if value is not None
    )
    return format_element("dl", cells)


def _format_label(name: str) -> str:
    """Keep leading code, such as ``len(losses) before a step``."""
    code, _, remainder = name.partition(" ")
    if code.isidentifier():
        return escape_html(name[:1].upper() + name[1:])
    return format_text("code", code) + escape_html(f" {remainder}" if remainder else "")


def _format_outputs(diagnosis: Diagnosis) -> str:
    outputs = diagnosis.report.outputs
    if not outputs:
        return ""
    differing = [check for check in outputs if check.differing_elements]
    equal = [check for check in outputs if not check.differing_elements]
    visible_checks = differing[:_MAX_OUTPUTS]
    hidden_count = len(differing) - len(visible_checks)
    rows = [_format_output(check) for check in visible_checks[:_FIRST_OUTPUTS]]
    folded_rows = [_format_output(check) for check in visible_checks[_FIRST_OUTPUTS:]]
    rows += [_format_equal_outputs(equal)] if len(equal) > 1 else map(_format_output, equal)
    heading = format_element("h2", "Replay compared with an eager step", "doctor-part")
    note = "All resulting tensors are compared, from the same memory and random state."
    if hidden_count:
        note += f" Not shown: {pluralize(hidden_count, 'more tensor')}."
    return (
        heading
        + format_element("p", note, "muted")
        + _format_output_table(rows)
        + (
            format_details(
                f"{pluralize(len(folded_rows), 'more tensor')} with differences",
                _format_output_table(folded_rows),
            )
            if folded_rows
            else ""
        )
    )


def _format_output_table(rows: list[list[str]]) -> str:
    head = "".join(
        format_element("th", name, scope="col") for name in ("Tensor", "Shape", "Difference")
    )
    lines = format_element("tr", head) + "".join(
        format_element("tr", "".join(format_element("td", cell) for cell in cells))
        for cells in rows
    )
    return format_element("div", format_element("table", lines, "doctor-table"), "scroll")


def _format_output(check: OutputCheck) -> list[str]:
    shape = f"{check.dtype} {list(check.shape)}"
    return [
        escape_html(check.name),
        escape_html(shape),
        escape_html(describe_output_difference(check)),
    ]


def _format_equal_outputs(equal: list[OutputCheck]) -> list[str]:
    items = "".join(
        format_text("li", f"{check.name}: {check.dtype} {list(check.shape)}") for check in equal
    )
    summary = format_text("summary", pluralize(len(equal), "tensor"))
    shapes = len({(check.dtype, check.shape) for check in equal})
    return [
        format_element("details", summary + format_element("ul", items)),
        escape_html(pluralize(shapes, "shape")),
        escape_html(describe_output_difference(equal[0])),
    ]


def show_undiagnosed(selection: SelectedExperiment) -> None:
    """Show blockers from an eager trace, and how to create a report."""
    predicted_run = get_comparison(selection.key).predicted_run
    if predicted_run is not None and not isinstance(predicted_run.graph_prediction, Missing):
        show_markup(format_text("h1", f"Capture blockers in the trace of {predicted_run.name}"))
        show_paragraph(format_prediction_verdict(predicted_run.graph_prediction), "sentence")
        for text in list_partial_bases(predicted_run.graph_prediction):
            show_paragraph(f"Partial: {text}.", "sentence")
        show_markup(format_blockers(predicted_run.graph_prediction))
    show_markup(_format_missing_report(selection))


def _format_missing_report(selection: SelectedExperiment) -> str:
    """Format how to create a report, for this workload or program if known."""
    runs = selection.experiment.runs
    ranks = count_concurrent_ranks(runs)
    failed_runs = [run for run in runs if run.manifest.failures]
    if failed_runs:
        causes = [failure for run in failed_runs for failure in run.manifest.failures]
        cause = format_cause(causes[0])
        failed_names = [
            run.name for run in failed_runs if cause in map(format_cause, run.manifest.failures)
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
        + format_text("p", reason)
        + format_element("p", f"{purpose} On a machine with a CUDA GPU:")
        + format_text("pre", format_doctor_command(runs[0])),
        "empty",
    )
