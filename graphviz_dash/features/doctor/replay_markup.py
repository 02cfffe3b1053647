"""A check of replays on the Doctor page: the verdict, then each fault with node and evidence."""

from __future__ import annotations

from collections.abc import Iterable

from graphviz_dash.analysis.replay_check import (
    MemoryFault,
    ReplayCause,
    ReplayDiagnosis,
    ReplayFault,
    StopFault,
    WrongOperator,
)
from graphviz_dash.features.doctor.code_markup import format_code
from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.model.replay_check import WrongElements
from graphviz_dash.narrative.replay_check import (
    CAUSE_ADVICE,
    CAUSE_TITLES,
    format_differing_elements,
    format_fault,
    format_gap,
    format_replay_verdict,
    list_fault_facts,
)
from graphviz_dash.ui.page.markup import format_element, format_text
from graphviz_dash.ui.page.widgets import format_facts
from graphviz_dash.units import format_count


def format_replay_check(diagnosis: ReplayDiagnosis) -> str:
    """Format the section of a check of replays."""
    # The verdict has the sentence of a single fault.
    has_sentences = diagnosis.fault_count > 1
    cards = [_format_fault(fault, has_sentences) for fault in diagnosis.faults]
    return _format_verdict(diagnosis) + "".join(cards) + _format_gaps(diagnosis)


def _format_fault(fault: ReplayFault, has_sentence: bool) -> str:
    sentence = format_fault(fault) if has_sentence else None
    match fault:
        case StopFault():
            return _format_stop(fault, sentence)
        case WrongOperator():
            return _format_wrong(fault, sentence)
        case MemoryFault():
            return _format_memory(fault, sentence)


def _format_verdict(diagnosis: ReplayDiagnosis) -> str:
    check = diagnosis.check
    values = check.values[0] if check.values else None
    pairs = [("Graphs", format_count(check.graphs))]
    if values is not None:
        pairs += [
            ("Graph nodes", format_count(values.nodes)),
            ("Operators per step", format_count(len(values.operators))),
            ("Tensors hashed per step", format_count(values.hash_count)),
            ("Replays compared", format_count(values.rounds * values.replays)),
        ]
    kind = "illegal" if diagnosis.stops else "silent" if diagnosis.fault_count else "sound"
    if not diagnosis.fault_count and not check.values and not check.graphs:
        kind = "unseen"
    label = {
        "illegal": "Replay stopped",
        "silent": "Replays are wrong",
        "sound": "Replays agree",
        "unseen": "Not checked",
    }[kind]
    return format_element(
        "section",
        format_element("span", label, f"badge {kind}")
        + format_text("p", format_replay_verdict(diagnosis), "doctor-verdict")
        + format_facts(pairs),
        f"doctor-hero {kind}",
    )


def _format_card(
    cause: ReplayCause,
    kind: str,
    badge: str,
    sentence: str | None,
    location: CodeLocation | None,
    facts: Iterable[tuple[str, str]],
    extra: str = "",
) -> str:
    head = format_element(
        "header",
        format_text("span", badge, f"badge {kind}")
        + format_text("h3", CAUSE_TITLES[cause])
        + format_text("code", cause.value, "rule-id"),
    )
    cells = "".join(format_text("dt", name) + format_text("dd", value) for name, value in facts)
    details = format_text("p", sentence) if sentence else ""
    details += format_code(location) if location else ""
    details += format_element("dl", cells) + extra
    advice = format_element("h4", "Fix") + format_text("p", CAUSE_ADVICE[cause])
    body = format_element("div", details, "found") + format_element("div", advice, "advice")
    return format_element(
        "article", head + format_element("div", body, "columns"), f"doctor-card {kind}"
    )


def _format_stop(fault: StopFault, sentence: str | None) -> str:
    stop = fault.stop
    suspect = stop.suspects[0] if stop.suspects else None
    suspect_location = suspect.location if suspect else None
    return _format_card(
        fault.cause,
        "illegal",
        stop.kind,
        sentence,
        suspect_location,
        list_fault_facts(fault),
    )


def _format_wrong(wrong: WrongOperator, sentence: str | None) -> str:
    extra = _format_elements(wrong.elements) if wrong.elements else ""
    return _format_card(
        wrong.cause,
        "silent",
        "wrong value",
        sentence,
        wrong.operator.location,
        list_fault_facts(wrong),
        extra,
    )


def _format_elements(elements: WrongElements) -> str:
    head = "".join(
        format_element("th", name, scope="col")
        for name in ("Element", "Eager", "Replay", "Difference")
    )
    rows = "".join(
        format_element(
            "tr",
            "".join(
                format_text("td", cell)
                for cell in (
                    str(list(item.index)),
                    f"{item.eager:.6g}",
                    f"{item.replay:.6g}",
                    f"{item.replay - item.eager:.3g}",
                )
            ),
        )
        for item in elements.first
    )
    table = format_element("table", format_element("tr", head) + rows, "doctor-table")
    caption = format_element("p", format_differing_elements(elements), "muted")
    return caption + format_element("div", table, "scroll")


def _format_memory(fault: MemoryFault, sentence: str | None) -> str:
    memory = fault.memory
    location = memory.free_location or (memory.node.location if memory.node else None)
    return _format_card(
        fault.cause,
        "silent",
        memory.fate,
        sentence,
        location,
        list_fault_facts(fault),
    )


def _format_gaps(diagnosis: ReplayDiagnosis) -> str:
    if not diagnosis.gaps:
        return ""
    items = "".join(format_text("li", format_gap(item)) for item in diagnosis.gaps)
    return format_element("h2", "Not checked", "doctor-part") + format_element("ul", items)
