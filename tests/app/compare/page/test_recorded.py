from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

SAMPLES = Path(__file__).resolve().parents[4] / "sample_traces"


def _show(path: str) -> None:
    """The panel of a sample, whose traces it does not need."""
    from pathlib import Path

    from graphviz_dash.analysis.comparison.compare import compare_runs
    from graphviz_dash.app.compare.page.recorded import show_recorded_panel
    from graphviz_dash.ingest.load import load_experiment

    show_recorded_panel(compare_runs(load_experiment(Path(path), traces=False)))


@pytest.mark.parametrize(
    ("sample", "folded"), [("recorded-server", ["175 captures"]), ("recorded-resnet", [])]
)
def test_a_long_list_of_captures_stands_folded_below_what_the_steps_were(
    sample: str, folded: list[str]
) -> None:
    page = AppTest.from_function(_show, args=(str(SAMPLES / sample),), default_timeout=60).run()
    assert not page.exception
    assert [expander.label for expander in page.expander] == folded
    said = [str(piece.value) for piece in page.get("html")]
    assert " traced, of the first " in said[0]
    assert ("<table" in said[0]) is not bool(folded)
    assert any("captured at" in piece for piece in said)
