from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from graphviz_dash.errors import InputError
from graphviz_dash.features.timeline.page.component.api import build_routes, load_card
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import ExecutionMode, Experiment, Run
from graphviz_dash.ui.state import store
from tests.builders import make_experiment
from tests.charts.frames import call, kernel, step, trace


def _experiment(path: Path, *, traces: bool = True) -> Experiment:
    if path.name == "broken":
        raise InputError(path, "no manifest.json", "a run bundle")
    rows = [kernel(i * 1000, 600, correlation=i + 1, name=f"k{i % 5}") for i in range(50)]
    calls = [call(i * 1000, 100, correlation=i + 1) for i in range(50)]
    made = trace(rows, calls, [step(0, 0, 25_000), step(1, 25_000, 25_000)])
    runs = []
    for mode in ("eager", "graph"):
        manifest = SimpleNamespace(mode=ExecutionMode(mode), rank=None, absent=(), failures=())
        runs.append(Run(path=path / mode, manifest=cast(Any, manifest), replay_trace=made))
    return Experiment(path, tuple(runs))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(store, "load_experiment", _experiment)
    with TestClient(Starlette(routes=build_routes())) as opened:
        yield opened


@pytest.fixture
def key(tmp_path: Path) -> str:
    return store.STORE.register(tmp_path / "experiment")


def test_a_view_of_two_runs(client: TestClient, key: str) -> None:
    answer = client.get(
        "/api/timeline/view",
        params={"experiment": key, "run": ["eager", "graph"], "step": ["0", "1"], "px": 1000},
    )
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert [run["run"] for run in body["runs"]] == ["eager", "graph"]
    assert [run["step"]["index"] for run in body["runs"]] == [0, 1]
    assert body["level"] == "slices"


def test_pixels_are_capped(client: TestClient, key: str) -> None:
    def ask(pixels: int) -> Any:
        return client.get(
            "/api/timeline/view", params={"experiment": key, "run": "eager", "px": pixels}
        ).json()

    assert ask(1 << 20)["bins"] == ask(4096)["bins"]


def test_a_slice(client: TestClient, key: str) -> None:
    answer = client.get(
        "/api/timeline/slice", params={"experiment": key, "run": "graph", "slice": "g30"}
    )
    assert answer.status_code == 200
    assert answer.json()["title"] == "k0"
    assert answer.json()["measured"] == "traced"
    assert answer.json()["begin"] == load_card(key, "graph", {}, "g30").begin


_VIEW = {"run": "eager", "px": "100"}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"experiment": "0" * 32}, 404),
        ({"experiment": "../../etc/pas"}, 400),
        ({"experiment": "A" * 32}, 400),
        ({"experiment": ""}, 400),
        ({"run": "nobody"}, 404),
        ({"run": "../eager"}, 404),
        ({"run": "<script>alert(1)</script>"}, 404),
        ({"run": ""}, 400),
        ({"run": "x" * 300}, 400),
        ({"run": ["eager"] * 9}, 400),
        ({"run": []}, 400),
        ({"px": "0"}, 400),
        ({"px": "-5"}, 400),
        ({"px": "1e3"}, 400),
        ({"px": "9" * 400}, 400),
        ({"px": "\u0661\u0662"}, 400),
        ({"px": ""}, 400),
        ({"px": ["10", "20"]}, 400),
        ({"t0": "0"}, 400),
        ({"t0": "10", "t1": "10"}, 400),
        ({"t0": "nan", "t1": "inf"}, 400),
        ({"t0": "0", "t1": "9" * 16}, 400),
        ({"step": "x"}, 400),
        ({"step": ["1", "2"]}, 400),
        ({"step": "9" * 30}, 400),
        ({"step": "99"}, 200),
        ({"t0": "-9007199254740992", "t1": "9007199254740992"}, 200),
        ({"px": "1048576"}, 200),
    ],
)
def test_hostile_views(client: TestClient, key: str, change: dict[str, Any], status: int) -> None:
    answer = client.get("/api/timeline/view", params={"experiment": key, **_VIEW, **change})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    if status != 200:
        assert set(answer.json()["error"]) == {"code", "message"}
        assert len(answer.text) < 1000


@pytest.mark.parametrize(
    ("which", "status"),
    [
        ("g0", 200),
        ("c49", 200),
        ("g50", 404),
        ("g-1", 404),
        ("graph-0#1", 404),
        ("#", 404),
        ("\x00", 404),
        ("g" + "9" * 5000, 404),
        ("c1; DROP TABLE", 404),
    ],
)
def test_hostile_slices(client: TestClient, key: str, which: str, status: int) -> None:
    answer = client.get(
        "/api/timeline/slice", params={"experiment": key, "run": "eager", "slice": which}
    )
    assert answer.status_code == status
    assert len(answer.text) < 2000


def test_an_unreadable_experiment_is_told_in_one_line(client: TestClient, tmp_path: Path) -> None:
    broken = store.STORE.register(tmp_path / "broken")
    answer = client.get(
        "/api/timeline/view", params={"experiment": broken, "run": "eager", "px": 100}
    )
    assert answer.status_code == 422
    assert "\n" not in answer.json()["error"]["message"]


def test_only_get_is_answered(client: TestClient) -> None:
    assert client.post("/api/timeline/view").status_code == 405
    assert client.delete("/api/timeline/slice").status_code == 405


def _complete(client: TestClient, key: str) -> None:
    params = {"experiment": key, "run": ["eager", "graph"]}
    for _ in range(100):
        if client.post("/api/timeline/more", params=params).json()["state"] != "running":
            return


def test_more_is_found_out_when_asked_for(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "load_experiment", load_experiment)
    key = store.STORE.register(make_experiment(tmp_path / "toy"))
    params = {"experiment": key, "run": ["eager", "graph"], "px": 1000}
    first = client.get("/api/timeline/view", params=params).json()
    assert (first["complete"], first["differences"]) == (False, [])
    assert all("node" not in lane for run in first["runs"] for lane in run["lanes"])
    _complete(client, key)
    then = client.get("/api/timeline/view", params=params).json()
    assert then["complete"] is True
    assert any(set(lane.get("node", ())) - {-1} for lane in then["runs"][1]["lanes"])
    (lane,) = then["differences"]
    assert lane["run"] == "graph"
    lengths = [run["step"]["end"] for run in then["runs"]]
    assert sum(lane["total"]) == lengths[0] - lengths[1] > 0
    assert sum(lane["idle"]) + sum(lane["busy"]) <= lane["most"]
    assert "operations matched" in lane["text"]
    kernel_row = then["runs"][0]["lanes"][-1]["row"]
    middle = sum(kernel_row[: len(kernel_row) // 2])
    shown = {"shown": ["eager", "graph"], "shown_step": ["", ""]}
    answer = client.get(
        "/api/timeline/slice",
        params={"experiment": key, "run": "eager", "slice": f"g{middle}"} | shown,
    ).json()
    (pair,) = answer["pairs"]
    assert pair["run"] == "graph"
    assert "matched by order" in dict(answer["fields"])["In graph"]
    back = client.get(
        "/api/timeline/slice",
        params={"experiment": key, "run": "graph", "slice": pair["token"]} | shown,
    ).json()
    assert back["name"] == answer["name"]
    assert [one["run"] for one in back["pairs"]] == ["eager"]


def test_a_task_that_never_began_cannot_be_cancelled(client: TestClient, key: str) -> None:
    answer = client.post("/api/timeline/cancel", params={"experiment": key, "run": "eager"})
    assert answer.status_code == 404


def test_measuring_tells_each_run(client: TestClient, key: str) -> None:
    params = {"experiment": key, "run": ["eager", "graph"], "step": ["0", "1"]}
    answer = client.get("/api/timeline/measure", params=params | {"t0": 0, "t1": 2_000})
    assert answer.json()["lines"] == [
        ["eager", "2 GPU slices · busy 1.20 µs (60.0%) · longest idle 400 ns"],
        ["graph", "2 GPU slices · busy 1.20 µs (60.0%) · longest idle 400 ns"],
    ]
    answer = client.get("/api/timeline/measure", params=params | {"t0": 5, "t1": 4})
    assert answer.status_code == 400
