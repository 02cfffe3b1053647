from __future__ import annotations

import re
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from graphviz_dash.analysis.loop.family_report import has_only_recorded_graphs
from graphviz_dash.bundle.read import read_node_names
from graphviz_dash.features.ladder.page import state as families
from graphviz_dash.guidance.gaps import Part, find_gaps
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.node_names import NodeNames
from graphviz_dash.ui.state import catalogue
from tests.loops import make_segmented, make_server, traffic
from tests.samples import SAMPLES
from tests.ui.standing import follow, lent
from tests.ui.views.apptests import LookIn, markup, page_links, rerun, shown
from tests.ui.waits import idle


@pytest.fixture
def service(roots: Path) -> Path:
    make_server(roots / "service", requests=[*traffic(500, 32), *[40] * 10])
    return roots / "service"


def test_a_server(service: Path) -> None:
    page = shown("graphs", experiment="service")
    said = markup(page)
    reasons = {link.label: link.reason for link in page_links(page)[:11]}
    assert reasons["Compile"] == "No run used torch.compile"
    assert reasons["Doctor"] == "No doctor examined these runs"
    assert not reasons["Graph"]
    assert "6 graphs in 1 family, 500 steps replayed, 10 steps without a matching graph" in said
    assert "Padding cost" in said
    assert "Kernel selection changes at 8 to 16." in said
    assert "small_gemm" in said
    assert said.count("6 sizes \N{RIGHTWARDS ARROW} ") == 1
    assert "A request of 33, one above the largest graph, takes 4.00 ms without a graph" in said
    charts = [chart.proto.id for chart in page.get("plotly_chart")]
    # Memory and startup by size are folded.
    assert len(charts) == 2


def test_the_steps_of_an_engine_by_mode(roots: Path) -> None:
    requests = [*traffic(100, 32), *[40] * 20]
    make_server(roots / "service", requests=requests, engine="SGLang 0.5.12")
    said = markup(shown("graphs", experiment="service"))
    assert "CUDA graph" in said
    assert re.search(
        r"20 of 120 decode steps ran eagerly and took [\d.]+% of the time because size 40 "
        r"exceeded the largest graph, 32\.",
        said,
    )
    # The answers precede reasons, tiles and panels.
    answers = (said.index("6 sizes \N{RIGHTWARDS ARROW} "), said.index("Graphs for size 48 would"))
    assert max(answers) < said.index("decode steps ran eagerly") < said.index("Padding cost")
    # The options can be copied.
    assert "--cuda-graph-bs 1 2 4 8 16 32 48 --cuda-graph-max-bs 48" in said


def test_large_graphs_are_read_beside_the_page(
    service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, begun = Event(), Event()

    def names(*asked: Any) -> NodeNames:
        begun.set()
        assert read.wait(60)
        return read_node_names(*asked)

    monkeypatch.setattr(families, "MIN_PROCESS_BYTES", 1)
    monkeypatch.setattr(families, "load_node_names", names)
    page = shown("graphs", experiment="service")
    assert begun.wait(60)
    assert "Loading the graphs" in markup(page)
    assert "Recommended capture sizes up to 32" in [header.value for header in page.header]
    read.set()
    job = families.start_changes_job(catalogue.list_experiments("").entries["service"].key, 0, 0)
    assert job is not None
    job.wait(60)
    said = markup(rerun(page))
    assert "Loading the graphs" not in said
    assert "Kernel selection changes at 8 to 16." in said


def test_budgets_are_of_the_address(service: Path) -> None:
    page = shown("graphs", experiment="service", graphs="3", memory="100000")
    assert [field.value for field in page.number_input] == [3, 100_000, None]
    (sizes,) = re.findall(r"<pre[^>]*sizes[^>]*><code>([^<]*)</code>", markup(page))
    assert len(sizes.split(",")) == 3
    # Without limits and within them.
    assert markup(page).count("6 sizes \N{RIGHTWARDS ARROW} ") == 2
    page.number_input[0].set_value(2).run()
    assert page.query_params["graphs"] == "2"


def test_a_row_leads_to_its_graph(service: Path) -> None:
    page = shown("graphs", experiment="service", member="2")
    (label,) = [link.label for link in page_links(page) if "Show decode" in link.label]
    assert label == "Show decode, batch 4"
    graph = shown("graph", experiment="service")
    titles = next(box for box in graph.selectbox if box.key == "choice-graph-0").options
    assert any(title.startswith("decode, batch 32 · ") for title in titles)


@pytest.mark.ui
def test_another_row_leads_to_its_graph_in_the_bar_too(tab_of_rare: Page) -> None:
    """In a browser: the table is a fragment, and the bar stands outside of it."""
    with lent(tab_of_rare) as page:
        follow(page, "graphs?experiment=service")
        table = page.locator("[data-testid=stDataFrame] canvas").first
        table.scroll_into_view_if_needed()
        idle(page)
        # What takes the click is a layer above the canvas.
        table.click(position={"x": 60, "y": 35 * 2 + 17}, force=True)
        expect(page.get_by_role("link", name="Show decode, batch 8")).to_be_visible()
        tab = page.locator(".tabs").get_by_role("link", name="One graph", exact=True)
        expect(tab).to_have_attribute("href", re.compile("graph=graph-0$"))
        expect(page.locator("[data-testid=stException]")).to_have_count(0)


@pytest.mark.usefixtures("open_folds")
def test_segments(roots: Path) -> None:
    make_segmented(roots / "training", segments=4, repeats=2)
    said = markup(shown("graphs", experiment="training"))
    assert "A step replays 8 graphs, 4 distinct" in said
    assert "Not available: the run has no trace of its steps." in said


def test_keys_that_are_not_known(roots: Path) -> None:
    make_server(roots / "service", method=None)
    page = shown("graphs", experiment="service")
    assert "Keys are unknown." in markup(page)
    assert not page.get("plotly_chart")


def test_the_overview_leads_here_first(service: Path) -> None:
    page = shown("overview")
    first = next(link for link in page_links(page) if link.label == "service")
    assert first.page == "graphs"


def test_two_runs_are_compared_by_size(service: Path) -> None:
    make_server(service, "other", sizes=(4, 32))
    said = markup(shown("graphs", experiment="service"))
    assert "recorded: 6 graphs for 6 keys" in said
    assert "other: 2 graphs for 2 keys" in said


def test_a_recorded_program_without_families_is_called_no_other_thing(look_in: LookIn) -> None:
    look_in(SAMPLES)
    alone = markup(shown("graphs", experiment="recorded-resnet"))
    assert "No program in this experiment replays many graphs" in alone


def test_a_recording_of_an_older_format_shows_its_graphs(roots: Path) -> None:
    folder = make_server(roots / "service")
    run = load_run(folder)
    older = replace(run, loop=None)
    assert run.recording is not None
    assert has_only_recorded_graphs(older)
    assert not has_only_recorded_graphs(run)
    assert Part.FAMILIES not in find_gaps([older])
