from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.builders import chain, make_run
from tests.cli.fixtures import Invoke

SAMPLE = str(Path("sample_traces/graph-update/graph").absolute())


@pytest.fixture
def two(folder: Path) -> tuple[str, str]:
    """Two runs, of which the second has one node more at its end."""
    first = make_run(folder / "life", "graph", work=chain(5))
    second = make_run(folder / "later", "graph", work=chain(6))
    return str(first), str(second)


def test_equal_graphs_are_the_same(two: tuple[str, str], invoke: Invoke) -> None:
    result = invoke("diff", two[0], f"{two[0]}:graph-0", "--exit-code")
    assert result.code == 0
    assert result.out.startswith("The two graphs are identical.")
    assert "documented rules: accepted" in result.out


def test_a_difference_is_no_failure_unless_asked_for(two: tuple[str, str], invoke: Invoke) -> None:
    assert invoke("diff", *two).code == 0
    assert invoke("diff", *two, "--exit-code").code == 1


def test_text_names_what_was_added_and_why_an_update_is_refused(
    two: tuple[str, str], invoke: Invoke
) -> None:
    out = invoke("diff", *two).out
    assert out.splitlines()[0] == "1 node added; 1 edge added."
    assert re.search(r"^added +– +5 ", out, re.M)
    assert "added 4 to 5 of B" in out
    assert "refused, ERROR_TOPOLOGY_CHANGED: 6 nodes instead of 5" in out
    assert "the driver" not in out


def test_the_document_says_the_same(two: tuple[str, str], invoke: Invoke) -> None:
    document = json.loads(invoke("diff", *two, "--json").out)
    assert (document["schema"], document["version"]) == ("graphviz-dash/diff", 2)
    assert document["identical"] is False
    (graph,) = document["graphs"]
    assert graph["node_counts"] == {"added": 1, "removed": 0, "changed": 0, "moved": 0, "same": 5}
    (node,) = graph["nodes"]
    assert (node["change"], node["a"], node["b"]) == ("added", None, 5)
    assert node["median_a"] is None
    assert node["median_b"] > 0
    predicted = document["update"]["predicted"]
    assert predicted["accepted"] is False
    assert predicted["result"] == "ERROR_TOPOLOGY_CHANGED"
    assert document["update"]["recorded"] is None
    assert document["update"]["prediction_correct"] is None


def test_the_drivers_answer_stands_beside_the_prediction(invoke: Invoke) -> None:
    pair = f"{SAMPLE}:graph-0", f"{SAMPLE}:graph-8"
    out = invoke("diff", *pair).out
    assert "graph:graph-8 (norm on the other branch)" in out
    assert "driver: refused, ERROR_TOPOLOGY_CHANGED" in out
    assert "not as predicted" not in out
    update = json.loads(invoke("diff", *pair, "--json").out)["update"]
    assert update["prediction_correct"] is True
    assert len(update["recorded"]["update"]) == len(update["recorded"]["instantiate"]) == 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere", "nowhere"), "no such folder"),
        ((SAMPLE, SAMPLE), "a run with 9 graphs"),
        ((f"{SAMPLE}:graph-77", SAMPLE), "no graph 'graph-77'"),
        (("sample_traces/mlp-train/eager", SAMPLE), "without a captured graph"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_an_argument_without_a_graph_is_one_error(
    arguments: tuple[str, str], said: str, invoke: Invoke
) -> None:
    result = invoke("diff", *arguments)
    assert result.code == 2
    assert said in result.err
    assert len(result.err.splitlines()) == 1
