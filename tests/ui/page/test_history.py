from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import BrowserContext, ElementHandle, Locator, Page, expect

from tests.ui.standing import follow, leave_for
from tests.ui.tabs import tab
from tests.ui.waits import Answers, at_page, idle

pytestmark = pytest.mark.ui


@pytest.fixture
def page(made_tab: Page) -> Page:
    return made_tab


@pytest.fixture
def new_tab(visitor: BrowserContext) -> Iterator[Page]:
    with tab(visitor) as opened:
        yield opened


def canvas(page: Page) -> Locator:
    # While one graph takes another's place, both are there for a moment.
    expect(page.locator(".dag canvas")).to_have_count(1)
    found = page.locator('.dag canvas[data-boxes]:not([data-boxes=""], [data-boxes="0"])')
    expect(found).to_have_count(1)
    return found


def at(page: Page, end: str) -> None:
    """Waits until the address ends so."""
    expect(page).to_have_url(re.compile(re.escape(end) + "$"))


def in_bar(page: Page, label: str) -> Locator:
    # A page that still runs may draw the link again.
    idle(page)
    return page.locator(".st-key-top-bar").get_by_role("link", name=label, exact=True)


def test_back_goes_step_by_step_through_pages_and_choices(page: Page) -> None:
    follow(page, "")
    page.locator('a[href*="graph?experiment=step"]').click()
    canvas(page)
    at(page, "/graph?experiment=step")
    idle(page)
    page.get_by_role("combobox", name="Colour by").click()
    page.get_by_role("option", name="phase").click()
    at(page, "/graph?experiment=step&colour=phase")
    idle(page)
    page.get_by_role("radio", name="partial").click()
    at(page, "/graph?experiment=step&colour=phase&run=partial")
    in_bar(page, "Timeline").click()
    expect(page.locator(".timeline canvas")).to_be_visible()
    at_page(page, "timeline")
    in_bar(page, "Graph").click()
    at(page, "/graph?experiment=step&colour=phase&run=partial")
    canvas(page)

    for end in (
        "/timeline?experiment=step",
        "/graph?experiment=step&colour=phase&run=partial",
        "/graph?experiment=step&colour=phase",
        "/graph?experiment=step",
        "/",
    ):
        page.go_back()
        at(page, end)
        if "graph" in end:
            canvas(page)
            run = "partial" if "partial" in end else "graph"
            expect(page.get_by_role("radio", name=run, exact=True)).to_be_checked()
        else:
            settled = ".timeline canvas" if "timeline" in end else ".hero"
            expect(page.locator(settled).first).to_be_visible()


def test_a_link_is_one_step_of_the_history_and_keeps_the_document(new_tab: Page, made: str) -> None:
    new_tab.goto(made)
    expect(new_tab.locator(".own")).to_be_visible()
    idle(new_tab)
    new_tab.evaluate("window.marked = history.length")
    new_tab.locator(".card").get_by_role("link", name="step", exact=True).click()
    at(new_tab, "/compare?experiment=step")
    expect(new_tab.locator("table.figures").first).to_be_visible()
    idle(new_tab)
    new_tab.wait_for_function("history.length - window.marked === 1")
    new_tab.go_back()
    expect(new_tab.locator(".own")).to_be_visible()
    # Asked to, the browser opens it elsewhere, as it opens any link.
    with new_tab.context.expect_page() as opened:
        in_bar(new_tab, "Graph").click(modifiers=["ControlOrMeta"])
    at(opened.value, "/graph?experiment=step")
    opened.value.close()
    expect(new_tab.locator(".own")).to_be_visible()


def test_back_takes_the_selection_of_a_node_back(page: Page) -> None:
    follow(page, "graph?experiment=step")
    drawn = canvas(page)
    idle(page)
    for node in (2, 5):
        place = drawn.evaluate("(canvas, node) => canvas.__dag.getPosition(node)", node)
        page.mouse.click(place["x"], place["y"])
        expect(page.locator(".node").first).to_contain_text(f"node {node} ")
        at(page, f"node={node}")
    page.go_back()
    expect(page.locator(".node").first).to_contain_text("node 2 ")
    expect(drawn).to_have_attribute("data-selected", "2")
    page.go_back()
    expect(page.locator(".node").first).to_contain_text("Longest nodes")
    expect(drawn).to_have_attribute("data-selected", "")
    page.go_forward()
    expect(page.locator(".node").first).to_contain_text("node 2 ")


def test_back_takes_the_selection_of_a_slice_back(page: Page, made: str) -> None:
    follow(page, "timeline?experiment=branches")
    stage = page.locator(".timeline canvas")
    expect(stage).to_have_attribute("data-painted", re.compile(r"[1-9]"))
    seen = []
    for _ in range(2):
        stage.focus()
        page.keyboard.press(".")
        expect(page).not_to_have_url(re.compile(re.escape(seen[-1]) if seen else "^$"))
        expect(page).to_have_url(re.compile("select="))
        # The page answers with the card of the slice.
        expect(stage).to_have_attribute("data-card", re.compile(re.escape(_select(page.url))))
        idle(page)
        seen.append(page.url)
    assert seen[0] != seen[1]
    page.go_back()
    expect(page).to_have_url(seen[0])
    expect(stage).to_have_attribute("data-card", re.compile(re.escape(_select(seen[0]))))
    # The drawing reports a selection half a second later, if it does.
    page.wait_for_timeout(600)
    idle(page)
    expect(page).to_have_url(seen[0])
    page.go_back()
    expect(page).to_have_url(f"{made}/timeline?experiment=branches")


def _select(address: str) -> str:
    return parse_qs(urlsplit(address).query)["select"][0]


def test_the_picker_at_the_top_changes_the_experiment_of_the_page(page: Page) -> None:
    follow(page, "graph?experiment=step&run=partial")
    expect(page.get_by_role("heading", name="Graph of step", exact=True)).to_be_attached()
    idle(page)
    page.locator(".st-key-top-bar").get_by_role("combobox").click()
    page.get_by_role("option", name="branches").click()
    expect(page.get_by_role("heading", name="Graph of branches", exact=True)).to_be_attached()
    at(page, "/graph?experiment=branches&run=partial")
    page.go_back()
    expect(page.get_by_role("heading", name="Graph of step", exact=True)).to_be_attached()
    expect(page.get_by_role("radio", name="partial")).to_be_checked()


def test_the_old_address_of_the_overview_leads_there(new_tab: Page, made: str) -> None:
    new_tab.goto(f"{made}/overview")
    expect(new_tab.locator(".hero").first).to_be_visible()
    expect(new_tab).to_have_url(f"{made}/")


def test_back_leads_to_where_a_page_was_left_and_a_link_to_its_top(page: Page) -> None:
    follow(page, "compare?experiment=step")
    idle(page)
    main = page.get_by_test_id("stMain")
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    # The page grows while it is drawn.
    page.wait_for_function(
        "main => { main.scrollTo(0, 400); return main.scrollTop === 400 }",
        arg=main.element_handle(),
    )
    in_bar(page, "Doctor").click()
    expect(page.get_by_role("heading", name="Doctor of step", exact=True)).to_be_attached()
    expect(main).to_have_js_property("scrollTop", 0)
    idle(page)
    page.go_back()
    expect(main).to_have_js_property("scrollTop", 400)
    idle(page)
    expect(main).to_have_js_property("scrollTop", 400)
    page.go_forward()
    expect(page.get_by_role("heading", name="Doctor of step", exact=True)).to_be_attached()
    expect(main).to_have_js_property("scrollTop", 0)
    idle(page)
    in_bar(page, "Compare").click()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    idle(page)
    expect(main).to_have_js_property("scrollTop", 0)


CHOICES = {
    "Compare": ("partial", "run=partial"),
    "Graph": ("partial", "run=partial"),
    "Timeline": ("partial", "runs=eager&runs=graph&runs=partial"),
    "Memory": ("whole device", "memory=whole"),
    "Launch": ("linear", "scale=linear"),
    "Export": ("partial", "trace=partial"),
}
"""A selection on each page, and its address."""


def chosen_on(page: Page, label: str) -> Locator:
    """The widget with the choice, which is made."""
    of = page.get_by_test_id("stMain")
    role = "button" if label == "Timeline" else "radio"
    return of.get_by_role(role, name=CHOICES[label][0], exact=True).first


def test_every_page_is_found_as_it_was_left(page: Page) -> None:
    follow(page, "compare?experiment=step")
    left: dict[str, str] = {}
    for label, (_, query) in CHOICES.items():
        if label != "Compare":
            in_bar(page, label).click()
        at_page(page, label.lower())
        widget = chosen_on(page, label)
        widget.click()
        expect(page).to_have_url(re.compile(re.escape(query)))
        idle(page)
        left[label] = page.url
    for label, address in left.items():
        in_bar(page, label).click()
        expect(page).to_have_url(address)
        at_page(page, label.lower())
    page.reload()
    expect(page).to_have_url(left["Export"])
    expect(chosen_on(page, "Export")).to_be_checked()
    for label in reversed(list(left)[:-1]):
        page.go_back()
        expect(page).to_have_url(left[label])
    page.go_forward()
    expect(page).to_have_url(left["Graph"])
    expect(chosen_on(page, "Graph")).to_be_checked()


@pytest.fixture(scope="module")
def _slow_tab(visitor: BrowserContext, made: str) -> Iterator[tuple[Page, Answers]]:
    with tab(visitor) as opened:
        answers = Answers(opened)
        opened.goto(f"{made}/doctor?experiment=nowhere")
        idle(opened)
        yield opened, answers


@pytest.fixture
def slow_tab(_slow_tab: tuple[Page, Answers]) -> Iterator[tuple[Page, Answers]]:
    """A tab that can be made to hear its server late."""
    yield _slow_tab
    _slow_tab[1].release()


def test_pages_that_are_passed_quickly_leave_the_address_alone(
    slow_tab: tuple[Page, Answers],
) -> None:
    """Their scripts start and reach the browser after it has left the page."""
    page, answers = slow_tab
    follow(page, "compare?experiment=step&run=partial")
    left = []
    for label in ("Graph", "Memory", "Launch"):
        idle(page)
        left.append(page.url)
        in_bar(page, label).click()
        at_page(page, label.lower())
    last = page.url
    pass_quickly(page, answers, left, 2)
    page.go_forward()
    expect(page).to_have_url(left[-1])
    page.go_forward()
    expect(page).to_have_url(last)
    idle(page)
    pass_quickly(page, answers, left, 3)
    page.go_forward()
    expect(page).to_have_url(left[-2])


def pass_quickly(page: Page, answers: Answers, left: list[str], steps: int) -> None:
    """Goes back so many of the pages that were left, and stays there."""
    for number in range(1, steps + 1):
        answers.hold()
        page.go_back()
        expect(page).to_have_url(left[-number])
        # The script of this page has begun.
        answers.wait()
    answers.release()
    shown = {"compare": "table.figures", "graph": ".dag canvas"}
    name = urlsplit(left[-steps]).path.strip("/")
    expect(page.locator(shown[name]).first).to_be_visible()
    idle(page)
    expect(page).to_have_url(left[-steps])


PAGE_IS_KNOWN = ("new_session", "navigation", "session_status_changed", "page_config_changed")
"""Messages that announce a page to the browser without its content."""


@pytest.mark.parametrize("passing", [(), PAGE_IS_KNOWN], ids=["page", "widgets"])
def test_a_late_message_of_a_page_does_not_undo_the_link(
    slow_tab: tuple[Page, Answers], passing: tuple[str, ...]
) -> None:
    """A drawing says that it is complete before the browser knows of the other page, or before it
    has the other page's choices."""
    page, answers = slow_tab
    follow(page, "graph?experiment=step&run=partial")
    drawing = canvas(page).element_handle()
    idle(page)
    answers.hold(passing)
    leave_for(page, "doctor?experiment=branches")
    answers.wait("script_finished")
    assert set(answers.addresses) <= {"experiment=branches"}
    answers.hold(passing)
    drawing.evaluate("canvas => canvas.__dag.setStateValue('loaded', 'again')")
    answers.wait("script_finished")
    assert set(answers.addresses) <= {"experiment=branches"}
    answers.release()
    expect(page.get_by_role("heading", name="Doctor of branches", exact=True)).to_be_attached()
    idle(page)
    at(page, "/doctor?experiment=branches")


@pytest.mark.parametrize("back", [False, True], ids=["link", "back"])
def test_a_choice_that_is_answered_elsewhere_leaves_the_address_alone(
    slow_tab: tuple[Page, Answers], back: bool
) -> None:
    page, answers = slow_tab
    follow(page, "export?experiment=branches")
    idle(page)
    leave_for(page, "graph?experiment=step")
    canvas(page)
    idle(page)
    answers.hold()
    page.get_by_role("radio", name="partial").click()
    answers.wait("page_info_changed")
    if back:
        page.go_back()
    else:
        leave_for(page, "export?experiment=branches")
    answers.release()
    expect(page.get_by_role("heading", name="Export of branches", exact=True)).to_be_attached()
    at(page, "/export?experiment=branches")
    idle(page)
    # Nor does the next choice, which is of the page that is seen.
    page.get_by_role("radio", name="eager", exact=True).first.click()
    expect(page).to_have_url(re.compile("/export[?]experiment=branches&trace=eager$"))


def test_a_message_of_a_drawing_does_not_revert_a_choice(
    slow_tab: tuple[Page, Answers],
) -> None:
    page, answers = slow_tab
    follow(page, "graph?experiment=step")
    drawing = canvas(page).element_handle()
    idle(page)
    answers.hold()
    page.get_by_role("radio", name="partial").click()
    answers.wait("script_finished")
    assert answers.addresses == ["experiment=step&run=partial"]
    answers.hold()
    drawing.evaluate("canvas => canvas.__dag.setStateValue('loaded', 'again')")
    answers.wait("script_finished")
    assert answers.addresses == []
    answers.release()
    at(page, "/graph?experiment=step&run=partial")
    idle(page)
    expect(page.get_by_role("radio", name="partial", exact=True)).to_be_checked()


LEFT = {
    "graph": (
        "dag.setStateValue('selected', {node: 3})",
        "dag.setStateValue('found', 'gemm')",
        "dag.setStateValue('fold', 'module')",
    ),
    "timeline": (
        "timeline.setStateValue('selected', {slice: 'graph/g1', at: 1})",
        "timeline.setStateValue('ruler', {span: [0, 9], at: 1})",
    ),
}
"""Late actions in the drawing of a page; each would add a parameter to the address."""


def drawn(page: Page, name: str) -> ElementHandle:
    follow(page, f"{name}?experiment=step")
    what = page.locator("canvas[aria-label]:not([aria-label*=loading])")
    expect(what).to_have_count(1)
    idle(page)
    return what.element_handle()


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.parametrize("passing", [(), PAGE_IS_KNOWN], ids=["page", "widgets"])
def test_choices_on_a_left_page_are_not_in_the_next_address(
    slow_tab: tuple[Page, Answers], name: str, passing: tuple[str, ...]
) -> None:
    page, answers = slow_tab
    drawing = drawn(page, name)
    answers.hold(passing)
    leave_for(page, "doctor?experiment=step")
    answers.wait("script_finished")
    for pick in LEFT[name]:
        answers.hold(passing)
        drawing.evaluate(f"canvas => canvas.__{pick}")
        answers.wait("script_finished")
        assert set(answers.addresses) <= {"experiment=step"}, pick
    answers.release()
    expect(page.get_by_role("heading", name="Doctor of step", exact=True)).to_be_attached()
    idle(page)
    at(page, "/doctor?experiment=step")
