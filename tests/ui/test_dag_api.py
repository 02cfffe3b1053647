"""The DAG's routes: what they answer, and that nothing else is let in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from graphviz_dash.ui.components.dag import routes
from graphviz_dash.ui.store import STORE

GOOD = {"run": "graph", "graph": "graph-0", "colour": "category", "ratio": "1.3"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(Starlette(routes=routes()))


@pytest.fixture(scope="module")
def key() -> str:
    return STORE.register(Path("sample_traces/transformer-train"))


def view(client: TestClient, key: str, **changes: str | None) -> Any:
    query = {"experiment": key, **GOOD, **changes}
    return client.get("/api/dag/view", params={k: v for k, v in query.items() if v is not None})


def test_a_view(client: TestClient, key: str) -> None:
    answer = view(client, key)
    assert answer.status_code == 200
    body = answer.json()
    assert body["nodes"] == 322
    assert len(answer.content) <= 50_000
    again = view(client, key, expanded=",".join(body["expanded"]))
    assert [box[0] for box in again.json()["boxes"]] == [box[0] for box in body["boxes"]]
    focused = view(client, key, focus="300", expanded="")
    assert "n300" in [box[0] for box in focused.json()["boxes"]]


def test_a_search(client: TestClient, key: str) -> None:
    query = {"experiment": key, "run": "graph", "graph": "graph-0", "q": "layers.2"}
    body = client.get("/api/dag/search", params=query).json()
    assert body["total"] == len(body["nodes"]) > 20
    assert "g" in body["around"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"experiment": "../../etc"}, 400),
        ({"experiment": None}, 400),
        ({"experiment": "0123456789ab"}, 404),
        ({"run": "nothing"}, 404),
        ({"run": "../eager"}, 404),
        ({"run": "x" * 300}, 400),
        ({"graph": "graph-9"}, 404),
        ({"graph": "y" * 200}, 400),
        ({"graph": ""}, 400),
        ({"colour": "<script>"}, 400),
        ({"ratio": "0"}, 400),
        ({"ratio": "nan"}, 400),
        ({"ratio": "1e999"}, 400),
        ({"ratio": "9999"}, 400),
        ({"focus": "322"}, 404),
        ({"focus": "-1"}, 400),
        ({"focus": "abc"}, 400),
        ({"focus": "9" * 30}, 400),
        ({"expanded": "g.0;drop"}, 400),
        ({"expanded": ",".join(["g.0"] * 500)}, 400),
        ({"expanded": "g" + ".1" * 200}, 400),
    ],
)
def test_what_is_wrong_is_said(
    client: TestClient, key: str, changes: dict[str, str | None], status: int
) -> None:
    answer = view(client, key, **changes)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["message"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("text", ["", " ", "x" * 201])
def test_a_search_for_nothing_is_refused(client: TestClient, key: str, text: str) -> None:
    query = {"experiment": key, "run": "graph", "graph": "graph-0", "q": text}
    assert client.get("/api/dag/search", params=query).status_code == 400


def test_groups_that_do_not_exist_are_passed_over(client: TestClient, key: str) -> None:
    answer = view(client, key, expanded="g.99.3,g.0")
    assert answer.status_code == 200
    assert answer.json()["expanded"] == ["g", "g.0"]


@pytest.fixture
def life() -> str:
    return STORE.register(Path("sample_traces/graph-update").resolve())


def test_two_graphs_are_given_as_one(client: TestClient, life: str) -> None:
    query = {"experiment": life, "run": "graph", "graph": "graph-8", "colour": "change"}
    earlier = {"against": life, "against_run": "graph", "against_graph": "graph-5"}
    answer = client.get("/api/dag/view", params={**query, **earlier, "ratio": "1.3"})
    assert answer.status_code == 200
    assert answer.json()["nodes"] == 38
    assert {entry["label"] for entry in answer.json()["legend"]} == {"removed", "moved", "same"}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"against": "0"}, 400),
        ({"against_run": "nothing"}, 404),
        ({"against_graph": "graph-99"}, 404),
        ({"against_graph": ""}, 400),
    ],
)
def test_what_is_wrong_with_the_earlier_graph_is_said(
    client: TestClient, life: str, changes: dict[str, str], status: int
) -> None:
    query = {"experiment": life, "run": "graph", "graph": "graph-8", "colour": "change"}
    earlier = {"against": life, "against_run": "graph", "against_graph": "graph-5", **changes}
    answer = client.get("/api/dag/view", params={**query, **earlier, "ratio": "1.3"})
    assert answer.status_code == status
