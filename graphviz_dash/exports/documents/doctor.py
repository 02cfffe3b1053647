"""The JSON of ``graphviz-dash doctor``."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from graphviz_dash.analysis.doctor import Diagnosis
from graphviz_dash.model.rules import RULES


def doctor_document(diagnoses: Sequence[Diagnosis]) -> dict[str, object]:
    """The findings in each process that the doctor examined."""
    return {"processes": [_process_document(diagnosis) for diagnosis in diagnoses]}


def _process_document(diagnosis: Diagnosis) -> dict[str, object]:
    report = diagnosis.report
    return {
        "outcome": diagnosis.outcome.value,
        "verdict": diagnosis.verdict,
        "subject": report.subject,
        "captured": report.captured,
        "attempts": report.attempts,
        "nodes": report.nodes,
        "steps": report.steps,
        "operators": report.operators,
        "replays": report.replays,
        "findings": [
            {
                **msgspec.to_builtins(finding),
                "title": RULES[finding.rule].title,
                "advice": RULES[finding.rule].advice,
            }
            for finding in diagnosis.findings
        ],
        "rules": [
            {
                "rule": outcome.rule.id.value,
                "status": outcome.status.value,
                "reason": outcome.reason,
                "findings": outcome.findings,
            }
            for outcome in diagnosis.rules
        ],
        "outputs": [msgspec.to_builtins(check) for check in report.outputs],
    }
