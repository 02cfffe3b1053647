from __future__ import annotations

import shutil
from pathlib import Path

from tests.ui.views.apptests import markup, shown

SAMPLES = Path(__file__).parents[4] / "sample_traces"


def test_differences_and_the_answer_of_the_driver_are_shown(roots: Path) -> None:
    shutil.copytree(SAMPLES / "graph-update", roots / "update")
    page = shown("graph", experiment="update", graph="graph-5", against="graph:graph-8")
    told = markup(page)
    assert "1 node removed, 1 moved; 4 edges added, 5 removed." in told
    assert "refused, ERROR_TOPOLOGY_CHANGED: 37 nodes instead of 38" in told
    assert "<b>Driver:</b> refused, ERROR_TOPOLOGY_CHANGED; the call takes" in told
    assert "differs from the prediction" not in told
    assert "From graph-5, captured earlier, to graph-8" in told
    tables = [table.value for table in page.dataframe]
    changes = next(table for table in tables if "Difference" in table)
    assert list(changes["Change"]) == ["moved", "removed"]
    # Whichever of the two is on the page, the earlier one is that which was captured before.
    other = shown("graph", experiment="update", graph="graph-8", against="graph:graph-5")
    assert "From graph-5, captured earlier, to graph-8" in markup(other)


def test_without_another_graph_its_life_is_reported(roots: Path) -> None:
    shutil.copytree(SAMPLES / "superset", roots / "superset")
    told = markup(shown("graph", experiment="superset"))
    assert "Device-side launch: yes, confirmed by the driver." in told
    assert "3 nodes are disabled in the graph exec." in told


def test_a_graph_that_is_not_there_is_compared_with_nothing(roots: Path) -> None:
    shutil.copytree(SAMPLES / "graph-update", roots / "update")
    told = markup(shown("graph", experiment="update", against="graph:graph-99"))
    assert "Device-side launch" in told


def test_the_timeline_sets_two_orders_of_creation_against_each_other(roots: Path) -> None:
    shutil.copytree(SAMPLES / "creation-order", roots / "order")
    page = shown("timeline", experiment="order")
    assert "contain the same graph, created in a different order: 995 µs and 646 µs" in markup(page)
    (picked,) = [group for group in page.button_group if group.key == "choice-runs-0"]
    assert picked.value == ["longest-copy-first", "shortest-copy-first"]
