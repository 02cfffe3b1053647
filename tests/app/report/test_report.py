from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.analysis.comparison.result import Comparison
from graphviz_dash.analysis.metrics.kernel_table import build_kernel_table
from graphviz_dash.analysis.step_comparison.waterfall import Cause, Waterfall
from graphviz_dash.app.cli.main import main
from graphviz_dash.app.compare.text.comparison import print_kernels
from graphviz_dash.app.report.report import render_report
from graphviz_dash.app.report.report_tables import format_kernels_section
from graphviz_dash.app.report.static_charts import StaticCharts, draw_charts
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Failure, Pass
from graphviz_dash.narrative.answer import build_run_answer, format_parts
from graphviz_dash.narrative.low_confidence import describe_low_confidence
from graphviz_dash.units import format_ns
from tests.chromium import PATIENCE_MS
from tests.experiments import Work, make_experiment, make_run
from tests.samples import compared_sample

EVIL = "</title></style><script>alert(1)</script><img src=http://e.x/>&\"'`\x1b[0m"


class Page(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(result: Comparison, drawn: StaticCharts | None = None) -> str:
    drawn = draw_charts(result) if drawn is None else drawn
    kernels = build_kernel_table(result.experiment, result.baseline)
    return render_report(result, kernels, drawn.pictures, (drawn.light, drawn.dark)).decode()


@pytest.fixture(scope="module")
def sample() -> Comparison:
    return compared_sample("mlp-train")


class TestContent:
    def test_an_engines_steps_and_options_are_in_the_report(self) -> None:
        text = Page(page_of(compared_sample("recorded-vllm"))).text
        assert "NONE (eager)" in text
        assert "375 of 396 mixed steps ran eagerly and took 37.2% of the time" in text
        assert "Graphs for 304, 544, 784 and 1,024 tokens would save about 2.56 ms" in text
        assert "--cudagraph-capture-sizes 1 2 4 8 16 24 32 40 48 56 64 304 544 784 1024" in text

    def test_kernels_of_few_steps_are_counted_and_not_listed(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        kernels = build_kernel_table(compared_sample("recorded-server").experiment)
        left_out = len(kernels.rows) - len(kernels.usual_rows)
        assert left_out > 0
        told = Page(format_kernels_section(kernels)).text
        print_kernels(kernels, len(kernels.rows))
        for text in (told, capsys.readouterr().out):
            assert f"the sums are too low. {left_out} kernels with a median of 0" in text
            assert " 0 ns" not in text
        assert "0 ns× 0" not in told

    def test_it_says_what_the_comparison_says(self, sample: Comparison) -> None:
        page = Page(page_of(sample))
        best = sample.best
        assert best is not None
        assert isinstance(best.waterfall, Waterfall)
        answer = build_run_answer(best)
        assert answer is not None
        for parts in (answer.verdict, answer.because, answer.costs, answer.next_step):
            assert format_parts(parts) in page.text
        for run in sample.runs:
            for metric in ("step_time", "peak_reserved", "graph_nodes"):
                assert run[metric].text in page.text
        for cause, saved in best.waterfall.saved.list_items():
            assert cause in Cause
            assert format_ns(abs(saved)) in page.text
        for note in describe_low_confidence(best.low_confidence):
            assert note.text in page.text

    def test_every_picture_is_there_and_its_colours_are_declared(self, sample: Comparison) -> None:
        drawn = draw_charts(sample)
        assert set(drawn.pictures) == {"waterfall", "where", "break-even", "timeline", "graph"}
        used = set(re.findall(r"var\((--s[0-9a-f]{12})\)", "".join(drawn.pictures.values())))
        for declared in (drawn.light, drawn.dark):
            assert set(re.findall(r"(--s[0-9a-f]{12}):#", declared)) == used
        assert page_of(sample, drawn).count("<svg viewBox") == 5

    def test_it_is_small(self, sample: Comparison) -> None:
        assert len(page_of(sample)) < 300_000

    @pytest.mark.parametrize(
        "name", ["sync-in-step", "recorded-resnet", "graph-update", "all-nodes"]
    )
    def test_the_report_omits_impossible_charts(self, name: str) -> None:
        result = compared_sample(name)
        page = Page(page_of(result))
        assert all(run.name in page.text for run in result.runs)
        assert "figure" in page.tags

    def test_nothing_but_failures(self, tmp_path: Path) -> None:
        failure = Failure(Pass.CLEAN, "RuntimeError", EVIL, None, "")
        make_run(tmp_path / "bad", "graph", failure=failure)
        markup = page_of(compare_runs(load_experiment(tmp_path / "bad")))
        assert "<svg" not in markup
        assert "RuntimeError" in Page(markup).text


class TestSafety:
    def test_names_are_text(self, tmp_path: Path) -> None:
        odd = EVIL.replace("/", "|")
        work = (
            Work(EVIL, 5_000, EVIL, "a.py:1", module=EVIL),
            Work(EVIL + "2", 5_000, EVIL, "a.py:1", module=EVIL),
        )
        folder = tmp_path / odd
        make_run(folder, "eager", work=work, workload=EVIL)
        make_run(folder, "graph", name=odd, work=work, workload=EVIL)
        page = Page(page_of(compare_runs(load_experiment(folder))))
        assert page.links == []
        assert not {"script", "img", "link", "iframe", "object", "form"} & set(page.tags)
        assert page.tags.count("title") >= 1
        assert "\x1b" not in page.text
        assert r"\x1b[0m" in page.text

    def test_the_policy_lets_nothing_be_loaded(self, sample: Comparison) -> None:
        markup = page_of(sample)
        assert "default-src 'none'; style-src 'unsafe-inline'" in markup
        assert not re.search(r"url\((?!#)|@import|https?:", markup)


class TestCommand:
    def test_it_writes_the_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = make_experiment(tmp_path / "toy")
        file = tmp_path / "toy.html"
        assert main(["export", "html", str(folder), "-o", str(file)]) == 0
        assert capsys.readouterr().out == f"{file}\n"
        assert file.read_bytes().startswith(b"<!doctype html>")
        missing = str(tmp_path / "no" / "toy.html")
        assert main(["export", "html", str(folder), "-o", missing]) == 2
        assert main(["export", "html", str(folder), "--baseline", "x", "-o", str(file)]) == 2


@pytest.mark.ui
class TestInABrowser:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_it_needs_no_network(
        self, sample: Comparison, browser: Browser, tmp_path: Path, scheme: str
    ) -> None:
        file = tmp_path / "report.html"
        file.write_text(page_of(sample))
        context = browser.new_context(offline=True, color_scheme=scheme)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.goto(file.as_uri())
        assert asked == [file.as_uri()]
        assert said == []
        sheet = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert sheet == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(15, 19, 26)")
        # No text of a drawing leaves it, and the page does not scroll sideways.
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        outside = page.evaluate(
            """[...document.querySelectorAll("figure > svg > text")].filter((text) => {
                 const [a, b] = [text, text.ownerSVGElement].map((e) => e.getBoundingClientRect());
                 return a.left < b.left - 2 || a.right > b.right + 2;
               }).map((text) => text.textContent)"""
        )
        assert outside == []
        # On paper it is light whatever the screen is.
        page.emulate_media(media="print")
        paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert paper == "rgb(255, 255, 255)"
        pages = len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True)))
        assert 4 <= pages <= 14
        context.close()
