from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Error, Locator, Page, expect

from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.charts.palette import CATEGORY_SHADES
from tests.ui.standing import show
from tests.ui.tabs import THEMES, Theme, tab
from tests.ui.waits import Answers, shown_for_a_moment

pytestmark = pytest.mark.ui

_NUMBER = re.compile(r"\d+")


@contextmanager
def _tab(visitor: BrowserContext, theme: Theme = "light") -> Iterator[Page]:
    errors: list[str] = []
    with tab(visitor, 1360, 800, theme) as opened:
        opened.on("pageerror", lambda error: errors.append(str(error)))
        yield opened
    assert errors == []


@pytest.fixture
def page(tab_of_site: Page) -> Iterator[Page]:
    errors: list[str] = []

    def note(error: Error) -> None:
        errors.append(str(error))

    tab_of_site.on("pageerror", note)
    yield tab_of_site
    tab_of_site.remove_listener("pageerror", note)
    assert errors == []


@pytest.fixture(scope="module", params=["light"])
def at_first(
    visitor: BrowserContext, site: str, request: pytest.FixtureRequest
) -> Iterator[tuple[Locator, tuple[int, int]]]:
    """A timeline that is opened once for many tests, and its window."""
    with _tab(visitor, request.param) as opened:
        canvas = _open(opened, site)
        yield canvas, _window(canvas)


@pytest.fixture
def canvas(at_first: tuple[Locator, tuple[int, int]]) -> Locator:
    """The shared timeline without rulers and selection, with the step in sight."""
    shown, window = at_first
    page = shown.page
    page.mouse.move(0, 0)
    shown.focus()
    page.keyboard.press("Escape")
    expect(page.get_by_text("selected: nothing")).to_be_visible()
    if _window(shown) != window:
        _settle(shown, lambda: page.keyboard.press("f"))
    return shown


def _open(page: Page, address: str) -> Locator:
    page.goto(f"{address}/?show=timeline")
    return _drawn(page)


def _show(page: Page, *parameters: str) -> Locator:
    show(page, "&".join(("timeline", *parameters)))
    return _drawn(page)


def _drawn(page: Page) -> Locator:
    canvas = page.locator("canvas[aria-label^='Timeline of']")
    expect(canvas).to_have_attribute("data-painted", _NUMBER)
    expect(canvas).to_have_attribute("data-complete", "yes")
    return canvas


def _window(canvas: Locator) -> tuple[int, int]:
    begin, stop = (canvas.get_attribute("data-window") or "").split(",")
    return int(begin), int(stop)


def _settle(canvas: Locator, act: Any) -> None:
    """Does ``act`` and waits until the view that it leads to is loaded and drawn."""
    before = canvas.get_attribute("data-fetches")
    act()
    expect(canvas).not_to_have_attribute("data-fetches", before or "")
    expect(canvas).to_have_attribute("data-moving", "no")


def _slices(canvas: Locator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = canvas.evaluate("c => c.__timeline.state.listSlices()")
    return found


def _centre(canvas: Locator, one: dict[str, Any]) -> tuple[float, float]:
    place = canvas.evaluate(
        "({ __timeline: t }, s) => t.state.getSliceRect(t.viewport, s.run, s.token)", one
    )
    return place["x"] + place["width"] / 2, place["y"] + place["height"] / 2


def _kernel(canvas: Locator) -> dict[str, Any]:
    """The longest kernel of the chosen step of the graph run."""
    graph = [s for s in _slices(canvas) if s["run"] == "graph" and s["token"][0] == "g"]
    end = canvas.evaluate("c => c.__timeline.state.view.runs.find(r => r.run === 'graph').step.end")
    return max((s for s in graph if 0 <= s["start"] < end), key=lambda s: s["dur"])


@pytest.mark.parametrize("at_first", THEMES, indirect=True)
def test_zoom_to_a_kernel_select_it_and_go_on_by_keyboard(canvas: Locator) -> None:
    page = canvas.page
    kernel = _kernel(canvas)
    x, y = _centre(canvas, kernel)

    _settle(canvas, lambda: canvas.dblclick(position={"x": x, "y": y}))
    begin, stop = _window(canvas)
    assert begin < kernel["start"] < kernel["start"] + kernel["dur"] < stop
    assert kernel["dur"] / (stop - begin) > 0.2
    expect(canvas).to_have_attribute("data-level", "slices")

    x, y = _centre(canvas, kernel)
    canvas.click(position={"x": x, "y": y})
    token = f"graph/{kernel['token']}"
    expect(page.get_by_text(f"selected: {token}")).to_be_visible()
    expect(page.get_by_role("region", name="Selected slice")).to_contain_text("Duration")

    canvas.focus()
    page.keyboard.press(".")
    expect(page.get_by_text(f"selected: {token}")).not_to_be_visible()
    page.keyboard.press(",")
    expect(page.get_by_text(f"selected: {token}")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("selected: nothing")).to_be_visible()


def test_wheel_zooms_at_the_pointer_and_drag_pans(page: Page) -> None:
    canvas = _show(page)
    kernel = _kernel(canvas)
    x, y = _centre(canvas, kernel)
    canvas.hover(position={"x": x, "y": y})
    begin, stop = _window(canvas)
    # Without Ctrl the wheel is the page's until there was a click into the drawing.
    with shown_for_a_moment(page.locator(".timeline .wheel")):
        page.mouse.wheel(0, -400)
    assert _window(canvas) == (begin, stop)
    page.keyboard.down("Control")
    _settle(canvas, lambda: page.mouse.wheel(0, -400))
    page.keyboard.up("Control")
    near, far = _window(canvas)
    assert far - near < (stop - begin) / 2
    assert _centre(canvas, kernel)[0] == pytest.approx(x, abs=2.6)  # a pixel, enlarged

    box = canvas.bounding_box()
    assert box is not None

    def drag() -> None:
        page.mouse.down()
        page.mouse.move(box["x"] + x + 200, box["y"] + y, steps=4)
        page.mouse.up()

    _settle(canvas, drag)
    moved = _window(canvas)
    assert moved[0] < near
    assert moved[1] - moved[0] == pytest.approx(far - near, abs=3)


def _drag(page: Page, begin: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*begin)
    page.mouse.down()
    page.mouse.move(*end, steps=3)
    page.mouse.up()


def _ruler(canvas: Locator) -> tuple[int, int]:
    expect(canvas).to_have_attribute("data-ruler", re.compile(r"^-?\d+,-?\d+$"))
    begin, end = (canvas.get_attribute("data-ruler") or "").split(",")
    return int(begin), int(end)


@pytest.mark.parametrize("at_first", THEMES, indirect=True)
def test_shift_drag_lays_a_ruler_that_stays_until_removed(canvas: Locator) -> None:
    page = canvas.page
    box = canvas.bounding_box()
    assert box is not None
    window = _window(canvas)
    per_pixel = (window[1] - window[0]) / (box["width"] - 124)
    page.keyboard.down("Shift")
    _drag(page, (box["x"] + 400, box["y"] + 20), (box["x"] + 600, box["y"] + 20))
    page.keyboard.up("Shift")
    begin, end = _ruler(canvas)
    assert end - begin == pytest.approx(200 * per_pixel, abs=2)
    assert begin == pytest.approx(window[0] + (400 - 124) * per_pixel, abs=2)
    assert _window(canvas) == window
    told = page.get_by_role("group", name="Ruler")
    for run in ("eager", "graph", "eager vs. graph"):
        expect(told.get_by_text(run, exact=True)).to_be_visible()
    expect(page.get_by_text(f"ruler: {begin},{end}")).to_be_visible()

    # One end is taken and moved; then by keys.
    _drag(page, (box["x"] + 600, box["y"] + 30), (box["x"] + 650, box["y"] + 20))
    assert _ruler(canvas)[1] - begin == pytest.approx(250 * per_pixel, abs=2)
    canvas.focus()
    page.keyboard.press("Shift+ArrowLeft")
    assert _ruler(canvas)[1] - begin == pytest.approx(249 * per_pixel, abs=3)
    _settle(canvas, lambda: page.keyboard.press("z"))
    near, far = _window(canvas)
    assert far - near == pytest.approx(1.08 * (_ruler(canvas)[1] - begin), rel=0.01)

    page.get_by_role("button", name="Remove the ruler (Del)").click()
    expect(told).to_be_hidden()
    expect(page.get_by_text("ruler: none")).to_be_visible()


def test_a_late_answer_undoes_no_newer_ruler(visitor: BrowserContext, site: str) -> None:
    with _tab(visitor) as page:
        answers = Answers(page)
        canvas = _open(page, site)
        box = canvas.bounding_box()
        assert box is not None
        answers.hold()
        page.keyboard.down("Shift")
        _drag(page, (box["x"] + 400, box["y"] + 20), (box["x"] + 600, box["y"] + 20))
        page.keyboard.up("Shift")
        first = _ruler(canvas)
        # Sent to Python, whose answer is on its way.
        answers.wait()
        canvas.focus()
        page.keyboard.press("Shift+ArrowRight")
        newer = _ruler(canvas)
        assert newer[1] > first[1]
        answers.release()
        expect(page.get_by_text(f"ruler: {newer[0]},{newer[1]}")).to_be_visible()
        assert _ruler(canvas) == newer


def test_a_button_of_the_ruler_is_pressed_while_it_is_measured_again(page: Page) -> None:
    """An answer that comes between press and release used to take the pressed button away."""
    canvas = _show(page, "ruler=1000,5000")
    told = page.get_by_role("group", name="Ruler")
    lines = told.locator("dd")
    expect(lines).not_to_have_count(0)
    count, before = lines.count(), told.inner_text()
    told.get_by_role("button", name="Remove the ruler (Del)").hover()
    page.mouse.down()
    canvas.focus()
    page.keyboard.press("Shift+ArrowRight")
    expect(told).not_to_have_text(before)
    expect(lines).to_have_count(count)
    page.mouse.up()
    expect(told).to_be_hidden()


def test_a_ruler_of_the_address_is_shown_and_one_laid_by_keys_spans_slices(page: Page) -> None:
    canvas = _show(page, "ruler=1000,5000&selected=graph/g40")
    assert _ruler(canvas) == (1000, 5000)
    expect(page.get_by_role("group", name="Ruler")).to_contain_text("4.000 µs")
    expect(canvas).to_have_attribute("data-card", "graph/g40")
    page.wait_for_function(
        "c => c.__timeline.state.selectedSlice && c.dataset.moving === 'no'",
        arg=canvas.element_handle(),
    )
    first = canvas.evaluate(
        "c => { const s = c.__timeline.state.selectedSlice;"
        " return [s.lane.start[s.i], s.lane.end[s.i]]; }"
    )
    canvas.focus()
    page.keyboard.press("m")
    assert _ruler(canvas) == (first[0], first[1])
    page.keyboard.press(".")
    page.keyboard.press(".")
    expect(canvas).not_to_have_attribute("data-card", "graph/g40")
    # Its card may come before its slice, which the view that follows it brings.
    page.wait_for_function(
        "([c, end]) => { const s = c.__timeline.state.selectedSlice;"
        " return s && c.dataset.moving === 'no' && s.lane.end[s.i] > end }",
        arg=[canvas.element_handle(), first[1]],
    )
    page.keyboard.press("m")
    begin, end = _ruler(canvas)
    assert begin == first[0]
    assert end > first[1]


def test_the_difference_lane_tells_how_far_eager_lags(canvas: Locator) -> None:
    page = canvas.page
    lane = canvas.evaluate(
        "c => { const r = c.__timeline.state.layout.blocks[0].differences[0];"
        " return { y: r.y + r.h / 2, run: r.difference.run, total: r.difference.total,"
        " end: c.__timeline.viewport.toX(c.__timeline.state.view.runs[0].step.end),"
        " ends: c.__timeline.state.view.runs.map((r) => r.step.end) }; }"
    )
    assert lane["run"] == "graph"
    assert sum(lane["total"]) == lane["ends"][0] - lane["ends"][1]
    canvas.hover(position={"x": lane["end"] - 1, "y": lane["y"]})
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_contain_text("behind graph")
    expect(tooltip).to_contain_text("operations matched")
    lost = canvas.evaluate(
        "c => { const v = c.__timeline.state.view; const d = v.differences[0];"
        " const bin = (v.loaded[1] - v.loaded[0]) / d.bins;"
        " const at = Math.floor((v.runs[0].step.end - v.loaded[0]) / bin);"
        " return d.idleAt[at] + d.busyAt[at]; }"
    )
    assert lost == pytest.approx(sum(lane["total"]), rel=0.05)


def test_a_card_leads_to_the_same_work_in_the_other_run(page: Page) -> None:
    token = f"graph/{_kernel(_show(page))['token']}"
    canvas = _show(page, f"selected={token}")
    panel = page.get_by_role("region", name="Selected slice")
    expect(panel).to_contain_text("In eager")
    panel.get_by_role("button", name="Select the same work in eager").click()
    expect(canvas).to_have_attribute("data-card", re.compile("^eager/g"))
    expect(panel).to_contain_text("In graph")
    panel.get_by_role("button", name="Select the same work in graph").click()
    expect(canvas).to_have_attribute("data-card", token)


def test_keys_zoom_and_pan(canvas: Locator) -> None:
    page = canvas.page
    canvas.focus()
    begin, stop = _window(canvas)
    for key, grows in (("w", 0.625), ("+", 0.625), ("s", 1.6), ("-", 1.6), ("d", 1), ("a", 1)):
        _settle(canvas, lambda key=key: page.keyboard.press(key))
        near, far = _window(canvas)
        assert far - near == pytest.approx((stop - begin) * grows, rel=0.01), key
        if grows == 1:
            assert (near > begin) == (key == "d")
        _settle(canvas, lambda: page.keyboard.press("f"))
        assert _window(canvas) == pytest.approx((begin, stop), abs=2), key


def test_progress_moves_neither_the_legend_nor_the_lanes(canvas: Locator) -> None:
    boxes = canvas.evaluate(
        """(canvas) => {
          const job = canvas.getRootNode().querySelector(".job")
          const legend = canvas.getRootNode().querySelector(".legend")
          const read = (element) => JSON.stringify(element.getBoundingClientRect())
          const measure = () => [canvas, legend].map(read)
          const before = measure()
          job.hidden = false
          job.textContent = "Comparing the kernels of eager with those of graph ".repeat(8)
          const after = measure()
          job.hidden = true
          job.textContent = ""
          return [before, after]
        }"""
    )
    assert boxes[0] == boxes[1]


def test_hover_tells_a_slice_and_a_gap(canvas: Locator) -> None:
    page = canvas.page
    kernel = _kernel(canvas)
    x, y = _centre(canvas, kernel)
    canvas.hover(position={"x": x, "y": y})
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_contain_text(kernel["name"])
    expect(tooltip).to_contain_text("long")
    eager = [s for s in _slices(canvas) if s["run"] == "eager" and s["token"][0] == "g"]
    row = canvas.evaluate(
        "c => { const { lanes } = c.__timeline.state.layout.blocks[0];"
        " const r = lanes.find(l => l.lane.kind === 'gpu');"
        " return r.y + r.h / 2; }"
    )
    first = min(s["start"] for s in eager if s["start"] >= 0)
    before = canvas.evaluate("(c, at) => c.__timeline.viewport.toX(at)", first / 2)
    canvas.hover(position={"x": before, "y": row})
    expect(tooltip).to_contain_text("idle for")


@pytest.mark.parametrize("at_first", THEMES, indirect=True)
def test_the_canvas_shows_colours_of_slices_and_follows_the_theme(canvas: Locator) -> None:
    page = canvas.page
    kernel = _kernel(canvas)
    x, _ = _centre(canvas, kernel)
    read = (
        "(c, p) => Array.from(c.getContext('2d')"
        ".getImageData(p[0] * devicePixelRatio, p[1] * devicePixelRatio, 1, 1).data)"
    )
    place = canvas.evaluate(
        "({ __timeline: t }, s) => t.state.getSliceRect(t.viewport, s.run, s.token)", kernel
    )
    inside = canvas.evaluate(read, [x, place["y"] + 3])
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    shade = CATEGORY_SHADES[Category.GEMM]
    assert bytes(inside[:3]).hex() == (shade.dark if dark else shade.light).removeprefix("#")


def test_a_selection_from_outside_is_shown_and_outweighed_by_a_click(page: Page) -> None:
    canvas = _show(page, "selected=graph/g40")
    expect(page.get_by_text("selected: graph/g40")).to_be_visible()
    expect(canvas).to_have_attribute("data-card", "graph/g40")
    page.wait_for_function(
        "c => { const { state, viewport } = c.__timeline;"
        " const place = state.getSliceRect(viewport, 'graph', 'g40');"
        " return place?.x > 124 && c.dataset.moving === 'no'; }",
        arg=canvas.element_handle(),
    )
    canvas.focus()
    page.keyboard.press(".")
    expect(page.get_by_text("selected: graph/g40")).not_to_be_visible()
    page.get_by_role("button", name="Ask for g41").click()
    expect(page.get_by_text("selected: graph/g41")).to_be_visible()
    expect(canvas).to_have_attribute("data-card", "graph/g41")


def test_the_timeline_is_reachable_and_named_for_screen_readers(canvas: Locator) -> None:
    page = canvas.page
    expect(canvas).to_have_attribute("aria-label", re.compile("GPU slices"))
    expect(canvas).to_have_attribute("tabindex", "0")
    for name in ("Zoom in (W)", "Zoom out (S)", "Fit the step (F)"):
        expect(page.get_by_role("button", name=name)).to_be_visible()
