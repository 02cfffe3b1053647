from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from graphviz_dash.app.cli import docs
from graphviz_dash.documentation import SOURCES
from graphviz_dash.errors import InputError
from tests.cli.fixtures import Invoke
from tests.test_docs import anchors


@pytest.fixture(autouse=True)
def _no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "SITE_FOLDER", tmp_path / "nowhere")


def test_every_topic_has_a_section() -> None:
    for name, where in docs.list_topics().items():
        page, _, anchor = where.partition("#")
        assert not anchor or anchor in anchors(SOURCES / page), name


@pytest.mark.parametrize(
    ("topic", "where"),
    [
        ("speedup", "reference/metrics.md#speedup"),
        ("Step time", "reference/metrics.md#step-time"),
        ("sync-value", "reference/rules.md#sync-value"),
        ("export perfetto", "reference/commands.md#export-perfetto"),
        ("bundle-format", "reference/bundle-format.md"),
    ],
)
def test_a_topic_is_printed_as_a_place(topic: str, where: str, invoke: Invoke) -> None:
    assert invoke("docs", *topic.split()).out.strip().endswith(f"docs/{where}")


def test_several_matches_are_listed(invoke: Invoke) -> None:
    lines = invoke("docs", "memory").out.splitlines()
    assert len(lines) == 1  # the command of that name
    assert len(invoke("docs", "peak").out.splitlines()) > 3


def test_an_unknown_topic_is_refused(invoke: Invoke) -> None:
    result = invoke("docs", "no", "such", "thing")
    assert result.code == 2
    assert "expected a command, a metric, a rule" in result.err


def test_the_built_site_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "index.html").touch()
    (tmp_path / "search" / "search_index.json").write_text(
        '{"config": {}, "docs": [{"location": "how-to/a.html#b", "title": "Choose sizes", '
        '"text": ""}]}'
    )
    monkeypatch.setattr(docs, "SITE_FOLDER", tmp_path)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert invoke("docs", "choose", "sizes", "--open").code == 0
    assert opened == [f"{tmp_path.as_uri()}/how-to/a.html#b"]


def test_an_installation_without_documentation_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.setattr(docs, "SOURCES", tmp_path / "docs")
    result = invoke("docs", "speedup")
    assert (result.code, "make site" in result.err) == (1, True)


def test_an_error_names_its_topic() -> None:
    error = InputError("a.json", "nothing", "a field", topic="bundle-format")
    assert str(error).endswith("expected a field. See graphviz-dash docs bundle-format.")
    assert error.__reduce__()[1] == ("a.json", "nothing", "a field", error.advice)


def test_a_topic_matches_the_beginnings_of_words() -> None:
    found = docs.find_topics("hang")
    assert all("change" not in name.casefold() for name in found)
    assert "how-to/check-replays.md#crashes-hangs-and-freed-memory" in found.values()
