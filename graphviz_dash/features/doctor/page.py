"""Doctor: why a capture fails, and what a replay would silently not do."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.doctor import (
    CaptureOutcome,
    Diagnosis,
    diagnose,
)
from graphviz_dash.features.doctor.undiagnosed import undiagnosed
from graphviz_dash.features.torch_compile.page.compile_causes import compiled_diagnosis
from graphviz_dash.model.doctor import CodePlace, Finding, OutputCheck, Seen, Severity
from graphviz_dash.model.rules import RULES
from graphviz_dash.model.run import Run
from graphviz_dash.narrative.doctor import difference_text, evidence_text, verdict_text
from graphviz_dash.ui.page.frame import choose_run, chosen_experiment
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.ui.page.rules import doctor_rules, rule_advice, rule_id
from graphviz_dash.ui.page.widgets import facts
from graphviz_dash.units import counted, format_count

_WORDS: Final = {
    CaptureOutcome.ILLEGAL: "Capture fails",
    CaptureOutcome.SILENT: "Replays differ",
    CaptureOutcome.HEALTHY: "Healthy",
    CaptureOutcome.UNSEEN: "Nothing captured",
}
_SEEN: Final = {
    Seen.CAPTURE: "reproduced in a capture",
    Seen.EAGER: "seen in eager steps",
    Seen.REPLAY: "seen in a replay",
}
_SHOWN_OUTPUTS: Final = 12


def render() -> None:
    """The page."""
    chosen = chosen_experiment(warned=True)
    runs = [
        run
        for run in chosen.experiment.runs
        if run.doctor is not None or run.compilation is not None
    ]
    if not runs:
        undiagnosed(chosen)
        return
    default = next((run.name for run in runs if run.manifest.failures), None)
    default = default or next((run.name for run in runs if run.doctor is not None), None)
    run = choose_run(runs, default=default) if len(runs) > 1 else runs[0]
    if run.doctor is not None:
        _examined(run, diagnose(run.doctor))
    if run.compilation is not None:
        compiled_diagnosis(chosen, run.name)


def _examined(run: Run, diagnosis: Diagnosis) -> None:
    """What the doctor found."""
    show(_verdict(run, diagnosis))
    for title, findings in (
        ("Illegal in a capture", diagnosis.illegal),
        ("Silently wrong on replay", diagnosis.silent),
    ):
        if findings:
            count = element("span", format_count(len(findings)), "count")
            show(element("h2", text(title) + count, "doctor-part"))
            show(*(_card(finding) for finding in findings))
    show(_outputs(diagnosis), doctor_rules(diagnosis))


def _verdict(run: Run, diagnosis: Diagnosis) -> str:
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
    return element(
        "section",
        element("span", text(_WORDS[diagnosis.outcome]), f"badge {kind}")
        + element("p", text(verdict_text(diagnosis)), "doctor-verdict")
        + facts(pairs),
        f"doctor-hero {kind}",
    )


def _card(finding: Finding) -> str:
    rule = RULES[finding.rule]
    kind = "illegal" if finding.severity is Severity.ILLEGAL else "silent"
    badge = "first illegal call" if finding.first else finding.severity.value
    head = element(
        "header",
        element("span", text(badge), f"badge {kind}")
        + element("h3", text(rule.title))
        + rule_id(rule),
    )
    left = _code(finding.place) if finding.place else ""
    if finding.message:
        left += element("p", text(finding.message), "doctor-error")
    left += _facts(finding)
    body = element("div", left, "found") + element(
        "div", rule_advice(rule, "What to do instead"), "advice"
    )
    return element("article", head + element("div", body, "columns"), f"doctor-card {kind}")


def _code(location: CodePlace) -> str:
    where = element("b", text(location.text))
    if location.function:
        where += element("span", f" in {text(location.function)}")
    if not location.lines:
        return element("div", where, "where")
    rows = [
        element(
            "span",
            element("i", text(number)) + text(line or " "),
            "hit" if number == location.line else "",
        )
        for number, line in enumerate(location.lines, location.first)
    ]
    return element("div", where, "where") + element(
        # It may be wider than its place, and is scrolled by keyboard too.
        "pre",
        "".join(rows),
        "code",
        tabindex="0",
        role="region",
        **{"aria-label": f"Code at {location.text}"},
    )


def _facts(finding: Finding) -> str:
    rows = [
        ("Operator", finding.op),
        ("Stream", finding.stream),
        ("Thread", finding.thread),
        ("Times in a step", None if finding.calls is None else format_count(finding.calls)),
        *((evidence.name, evidence_text(evidence)) for evidence in finding.evidence),
        ("Evidence", _SEEN[finding.seen]),
    ]
    cells = "".join(
        element("dt", _label(name)) + element("dd", text(value))
        for name, value in rows
        if value is not None
    )
    return element("dl", cells)


def _label(name: str) -> str:
    """A name as a label. What begins with code, such as ``len(losses) before a step``, stays as it
    is written."""
    code, _, rest = name.partition(" ")
    if code.isidentifier():
        return text(name[:1].upper() + name[1:])
    return element("code", text(code)) + text(f" {rest}" if rest else "")


def _outputs(diagnosis: Diagnosis) -> str:
    outputs = diagnosis.report.outputs
    if not outputs:
        return ""
    differing = [check for check in outputs if check.differing]
    equal = [check for check in outputs if not check.differing]
    rows = [_output(check) for check in differing[:_SHOWN_OUTPUTS]]
    more = len(differing) - len(rows)
    rows += [_equal_outputs(equal)] if len(equal) > 1 else map(_output, equal)
    heading = element("h2", "A replay against an eager step", "doctor-part")
    note = element(
        "p",
        "Both ran from the same memory and random state; then every tensor that they left was "
        "compared." + (f" Not shown: {counted(more, 'more tensor')}." if more else ""),
        "muted",
    )
    head = "".join(element("th", name, scope="col") for name in ("Tensor", "Shape", "Difference"))
    lines = element("tr", head) + "".join(
        element("tr", "".join(element("td", cell) for cell in cells)) for cells in rows
    )
    return heading + note + element("div", element("table", lines, "doctor-table"), "scroll")


def _output(check: OutputCheck) -> list[str]:
    shape = f"{check.dtype} {list(check.shape)}"
    return [text(check.name), text(shape), text(difference_text(check))]


def _equal_outputs(equal: list[OutputCheck]) -> list[str]:
    """One row for all tensors that a replay leaves as an eager step does."""
    named = "".join(
        element("li", text(f"{each.name}: {each.dtype} {list(each.shape)}")) for each in equal
    )
    summary = element("summary", text(counted(len(equal), "tensor")))
    shapes = len({(each.dtype, each.shape) for each in equal})
    return [
        element("details", summary + element("ul", named)),
        text(counted(shapes, "shape")),
        text(difference_text(equal[0])),
    ]
