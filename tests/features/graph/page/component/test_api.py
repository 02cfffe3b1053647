from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from graphviz_dash.features.graph.page.component import build_routes, preparing
from graphviz_dash.features.graph.page.component.preparing import get_view_event
from graphviz_dash.ui.state.store import STORE
from tests.builders import chain, make_run

GOOD = {"run": "graph", "graph": "graph-0", "colour": "category", "ratio": "1.3"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(Starlette(routes=build_routes()))


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


def test_the_first_view_of_a_graph_sets_its_event(client: TestClient, key: str) -> None:
    awaited, other = (
        get_view_event((key, "graph", "graph-0")),
        get_view_event((key, "graph", "graph-1")),
    )
    view(client, key, colour="none")
    assert not awaited.is_set()
    view(client, key)
    assert awaited.is_set()
    assert not other.is_set()
    assert not get_view_event((key, "graph", "graph-0")).is_set()


def test_a_view_by_module(client: TestClient, key: str) -> None:
    body = view(client, key, fold="module").json()
    titles = [box[7] for box in body["boxes"]]
    assert {"forward", "Transformer", "no module"} <= set(titles)
    assert body["note"] == ""
    assert body != view(client, key, fold="order").json() == view(client, key).json()


def test_a_view_by_data(client: TestClient, key: str) -> None:
    body = view(client, key, fold="data", colour="stream").json()
    assert body["edges"] > body["nodes"]  # no line any more
    streams = [entry["label"] for entry in body["legend"]]
    assert streams[:2] == ["stream 0", "stream 1"]
    assert len(streams) == len(set(streams))


def test_a_search(client: TestClient, key: str) -> None:
    query = {"experiment": key, "run": "graph", "graph": "graph-0", "q": "layers.2"}
    body = client.get("/api/dag/search", params=query).json()
    assert body["total"] == len(body["nodes"]) > 20
    assert "g" in body["groups"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"experiment": "../../etc"}, 400),
        ({"experiment": None}, 400),
        ({"experiment": "0123456789abcdef" * 2}, 404),
        ({"run": "nothing"}, 404),
        ({"run": "../eager"}, 404),
        ({"run": "x" * 300}, 400),
        ({"graph": "graph-9"}, 404),
        ({"graph": "y" * 200}, 400),
        ({"graph": ""}, 400),
        ({"colour": "<script>"}, 400),
        ({"fold": "colour"}, 400),
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
        ({"shown": "g.0"}, 400),
        ({"shown": "g.0:-2"}, 400),
        ({"shown": "g:1"}, 400),
        ({"shown": ",".join(["g.0:1"] * 500)}, 400),
        ({"first": "x"}, 400),
    ],
)
def test_an_invalid_view_request_is_an_error(
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
def test_an_invalid_earlier_graph_is_an_error(
    client: TestClient, life: str, changes: dict[str, str], status: int
) -> None:
    query = {"experiment": life, "run": "graph", "graph": "graph-8", "colour": "change"}
    earlier = {"against": life, "against_run": "graph", "against_graph": "graph-5", **changes}
    answer = client.get("/api/dag/view", params={**query, **earlier, "ratio": "1.3"})
    assert answer.status_code == status


def get(client: TestClient, key: str, name: str, **more: str) -> Any:
    query = {"experiment": key, "run": "graph", "graph": "graph-0", **more}
    return client.get(f"/api/dag/{name}", params=query)


def test_another_block_of_a_repeat(client: TestClient, key: str) -> None:
    body = view(client, key).json()
    repeat = next(box for box in body["boxes"] if box[12] == 4)
    other = view(client, key, expanded=",".join(body["expanded"]), shown=f"{repeat[0]}:2").json()
    assert other["shown"] == {repeat[0]: 2}
    assert len(other["boxes"]) == len(body["boxes"])
    card = get(client, key, "repeat", group=repeat[0], block="2").json()
    assert (card["repeats"], card["block"], len(card["bars"])) == (4, 2, 4)


def test_edges_one_by_one(client: TestClient, key: str) -> None:
    body = view(client, key).json()
    link = body["links"][0]
    found = get(client, key, "edges", source=link[0], target=link[1]).json()
    assert found["total"] == link[5]
    assert found["rows"][0]["what"].startswith("full dependency")


def test_the_current_view_is_exported_as_svg_and_dot(client: TestClient, key: str) -> None:
    seen = {"colour": "category", "ratio": "1.3", "theme": "dark"}
    drawn = get(client, key, "drawing", format="svg", **seen).json()
    assert (drawn["name"], drawn["type"]) == ("graph-graph-0.svg", "image/svg+xml")
    assert drawn["text"].startswith("<svg ")
    dot = get(client, key, "drawing", format="dot", **seen).json()
    assert dot["text"].startswith("digraph ")


@pytest.mark.parametrize(
    ("name", "more", "status"),
    [
        ("repeat", {"group": "g", "block": "0"}, 404),
        ("repeat", {"group": "g.0.0.1", "block": "9"}, 404),
        ("repeat", {"group": "n1", "block": "x"}, 400),
        ("edges", {"source": "n1", "target": "n99999"}, 404),
        ("edges", {"source": "<b>", "target": "n1"}, 400),
        ("edges", {"source": "n1"}, 400),
        ("drawing", {"format": "exe", "theme": "dark"}, 400),
        ("drawing", {"format": "svg", "theme": "pink"}, 400),
        ("drawing", {"format": "svg"}, 400),
    ],
)
def test_an_invalid_detail_request_is_an_error(
    client: TestClient, key: str, name: str, more: dict[str, str], status: int
) -> None:
    answer = get(client, key, name, **more)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_the_state_of_a_prepared_graph_is_done(client: TestClient, key: str) -> None:
    assert get(client, key, "progress").json()["state"] == "done"
    query = {"experiment": key, "run": "graph", "graph": "graph-0"}
    assert client.post("/api/dag/cancel", params=query).json()["state"] == "done"
    assert client.get("/api/dag/cancel", params=query).status_code == 405


def test_a_large_graph_is_prepared_by_a_job(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "toy", "graph", work=chain(60), workload="toy")
    toy = STORE.register(tmp_path / "toy")
    monkeypatch.setattr(preparing, "LARGE_GRAPH_NODES", 50)
    of = (toy, "graph", "graph-0")
    assert not preparing.is_ready(preparing.DrawnGraph(of))
    assert preparing.count_nodes(STORE.get_run(toy, "graph"), "graph-0") == 60

    def cancelled() -> None:
        preparing.cancel_preparation(preparing.DrawnGraph(of))

    told = preparing._list_tasks(preparing.DrawnGraph(of))
    monkeypatch.setattr(preparing, "_list_tasks", lambda *_: [("wait", cancelled), *told])
    answer = view(client, toy)
    assert answer.status_code == 400
    assert "cancelled" in answer.json()["error"]["message"]
    assert not preparing.is_ready(preparing.DrawnGraph(of))
    monkeypatch.setattr(preparing, "_list_tasks", lambda *_: told)
    assert view(client, toy).json()["nodes"] == 60
    assert preparing.is_ready(preparing.DrawnGraph(of))
    assert get(client, toy, "progress").json()["state"] == "done"


def test_a_large_graph_is_drawn_before_its_times_are_known(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "toy", "graph", work=chain(60), workload="toy")
    toy = STORE.register(tmp_path / "toy")
    monkeypatch.setattr(preparing, "LARGE_GRAPH_NODES", 50)
    soon = view(client, toy, soon="yes").json()
    assert not soon["complete"]
    assert {box[9] for box in soon["boxes"]} == {""}
    assert get(client, toy, "complete").json()["state"] == "done"
    then = view(client, toy, soon="yes").json()
    assert then["complete"]
    assert all(box[9] for box in then["boxes"])
    # The same boxes in the same places.
    assert [box[:9] for box in then["boxes"]] == [box[:9] for box in soon["boxes"]]
    assert then["expanded"] == soon["expanded"]


@pytest.mark.parametrize("colour", ["time", "slack", "op", "eager"])
def test_colours_that_tell_times_wait_for_them(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    make_run(tmp_path / "toy", "graph", work=chain(60), workload="toy")
    toy = STORE.register(tmp_path / "toy")
    monkeypatch.setattr(preparing, "LARGE_GRAPH_NODES", 50)
    assert view(client, toy, soon="yes", colour=colour).json()["complete"]
