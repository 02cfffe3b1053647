"""What torch.compile made of opened runs, built once."""

from __future__ import annotations

from graphviz_dash.analysis.compiled.report import CompileReport, compile_report
from graphviz_dash.model.absence import Missing
from graphviz_dash.ui.state.results import traced_steps
from graphviz_dash.ui.state.store import STORE


def compiled(key: str, run_name: str) -> CompileReport | Missing:
    """What torch.compile made of a run."""
    run = STORE.run(key, run_name)
    return STORE.derived(
        key,
        ("compiled", run_name),
        lambda _: compile_report(run, traced_steps(key, run_name)),
    )
