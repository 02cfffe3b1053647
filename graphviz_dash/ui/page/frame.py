"""Shared elements of all pages: top bar, selected experiment and run, and empty states."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

import streamlit as st
from msgspec import Struct

from graphviz_dash.charts.shades import ACCENT, IDLE, PAGE, WARNING, Theme, shade
from graphviz_dash.errors import InputError, WorkerError, printable
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.guide import help_panel
from graphviz_dash.ui.page.listing import listing, tell_changes, tell_damage
from graphviz_dash.ui.page.loading import experiment_read, read_button
from graphviz_dash.ui.page.markup import chart_key, element, show, text
from graphviz_dash.ui.page.navigation import dim, links, title_of
from graphviz_dash.ui.page.registry import PAGES
from graphviz_dash.ui.state.catalogue import Catalogue, Entry
from graphviz_dash.ui.state.store import STORE

T = TypeVar("T")

_OF_ONE_EXPERIMENT: Final = ("graph", "node", "against", "select", "step", "runs", "ruler", "trace")
"""URL parameters that are meaningless in another experiment."""

_DRAWN_S: Final = 0.015


class Chosen(Struct, frozen=True):
    """The experiment that a page shows."""

    entry: Entry
    experiment: Experiment

    @property
    def key(self) -> str:
        """Key in the store."""
        return self.entry.key


def theme() -> Theme:
    """Return the visitor's theme."""
    return "dark" if st.context.theme.type == "dark" else "light"


def figure(key: str, what: Hashable, build: Callable[[Theme], T]) -> T:
    """Return the cached figure ``what`` of the experiment ``key`` in the visitor's theme.

    Building a Plotly figure costs 30 ms.
    """
    seen = theme()
    return STORE.derived(key, ("figure", what, seen), lambda _: build(seen))


def loop_figure(key: str, what: Hashable, build: Callable[[Theme], T]) -> T:
    """Like :func:`figure`, for figures that need only the loop of a program."""
    seen = theme()
    return STORE.derived_loops(key, ("figure", what, seen), lambda: build(seen))


def bare_figure(key: str, what: Hashable, build: Callable[[Theme], T]) -> T:
    """Like :func:`figure`, for figures that need no traces."""
    seen = theme()
    return STORE.derived_bare(key, ("figure", what, seen), lambda _: build(seen))


def let_draw() -> None:
    """Give the browser time to draw before more elements follow.

    The front end batches everything that arrives within 10 ms, so the first elements would appear
    with the last of the page, 0.1 s later.
    """
    time.sleep(_DRAWN_S)


def draw(figure: Any, key: str) -> None:
    """Draw a themed Plotly figure, with legend and axis title as HTML that wraps."""
    bare = {"displayModeBar": False, "displaylogo": False}
    # With a fixed height the page is laid out before Plotly is loaded.
    height: Any = figure.layout.height or "content"
    labels = figure.layout.meta
    if labels is None:
        st.plotly_chart(figure, theme=None, config=bare, key=key, height=height)
        return
    with st.container(gap=None):
        if labels["keys"]:
            show(chart_key(labels["keys"]))
        st.plotly_chart(figure, theme=None, config=bare, key=key, height=height)
        show(element("p", text(labels["axis"]), "axis-title"))


def top_bar(page: str) -> None:
    """Draw the page links and, except on the overview, the experiment picker."""
    show(_variables(theme()))
    with st.container(key="top-bar", horizontal=True, vertical_alignment="center", gap="small"):
        logo = '<img src="/assets/logo.svg" alt="">'
        brand = element("div", logo + element("span", "graphviz-dash"), "brand")
        if not PAGES[page].shows_title:
            entry = chosen_entry()
            suffix = "" if entry is None else f" of {text(entry.name)}"
            brand += element("h1", f"{title_of(page)}{suffix}", "unseen")
        st.html(brand, width="content")
        links(page)
        if PAGES[page].shows_experiment:
            _experiment_picker()
        else:
            st.space("stretch")
        help_panel()


def _variables(seen: Theme) -> str:
    colours = {"idle": IDLE, "warn": WARNING, "accent": ACCENT, "page": PAGE}
    declarations = ";".join(f"--{name}:{shade(colour, seen)}" for name, colour in colours.items())
    return element("style", f":root{{{declarations}}}")


def _experiment_picker() -> None:
    listed = listing()
    names = list(listed.entries)
    if not names:
        return
    st.space("stretch")
    requested = url_state.experiment() or names[0]
    if requested not in names and listed.entry(requested) is not None:
        names.append(requested)
    shown = requested if requested in names else None
    st.selectbox(
        "Experiment",
        names,
        # With a default the field cannot be cleared.
        index=None if shown is None else 0,
        placeholder="Select an experiment",
        label_visibility="collapsed",
        width=260,
        **url_state.widget_of(url_state.EXPERIMENT, shown, _choose_experiment),
    )


def _choose_experiment(name: str | None) -> None:
    if name:
        url_state.change({url_state.EXPERIMENT: name} | dict.fromkeys(_OF_ONE_EXPERIMENT))


def tab_title(page: str) -> str:
    """The title of the browser's tab: the experiment and the page."""
    entry = chosen_entry() if PAGES[page].shows_experiment else None
    parts = [] if entry is None else [printable(entry.name)]
    return " · ".join((*parts, title_of(page), "graphviz-dash"))


def chosen_entry() -> Entry | None:
    """Return the experiment named in the address, else the last one seen, else the first.

    None if there are no experiments, or none with that name.
    """
    listed = listing()
    name = url_state.experiment() or next(iter(listed.entries), None)
    return None if name is None else listed.entry(name)


def chosen_experiment(*, warned: bool = False) -> Chosen:
    """Return the selected experiment, or end the page with an explanation.

    Shows a warning if speedups come from wrong results, unless the page has ``warned`` already.
    """
    # Imports the analysis, which the first page does not need.
    from graphviz_dash.narrative.doctor import unsound_text
    from graphviz_dash.ui.page.contents import empty_pages
    from graphviz_dash.ui.page.widgets import difference_note, incomplete_notes

    listed = listing()
    if not listed.entries:
        no_experiments(listed)
        st.stop()
    name = url_state.experiment() or next(iter(listed.entries))
    entry = listed.entry(name)
    if entry is None:
        empty(
            "Experiment not found",
            f"The address names {name}, which is not among the {len(listed.entries)} "
            "experiments found. Select one at the top.",
        )
        st.stop()
    url_state.change({url_state.EXPERIMENT: name})
    tell_changes([entry])
    try:
        experiment = experiment_read(entry.key, name)
    except (InputError, WorkerError) as error:
        trouble("Experiment cannot be read", str(error))
        st.stop()
    if experiment is None:
        empty("Loading cancelled", f"The traces of {name} were not loaded completely.")
        read_button()
        st.stop()
    tell_damage(entry)
    dim(empty_pages(experiment.runs))
    unsound = "" if warned else unsound_text(experiment.runs)
    if unsound:
        show(element("div", text(unsound), "failed", role="note"))
    if entry.pair is not None:
        show(difference_note(*experiment.runs))
    if notes := incomplete_notes(experiment.runs):
        show(notes)
    return Chosen(entry, experiment)


def dim_empty(entry: Entry) -> None:
    """Dim the links to pages without content for ``entry``, without loading the experiment."""
    # Imports the analysis, which the first page does not need.
    from graphviz_dash.ui.page.contents import empty_pages

    try:
        dim(empty_pages(STORE.outlines(entry.key)))
    except InputError:
        # The affected pages report the error.
        return


def choose_run(runs: list[Run], *, default: str | None = None, clears: tuple[str, ...] = ()) -> Run:
    """Show a picker for one of ``runs`` (at least one), stored as ``?run=`` in the address."""
    names = [run.name for run in runs]
    name = url_state.choose("run", "Run", names, default=default, clears=clears)
    return runs[names.index(name)]


def no_experiments(listed: Catalogue) -> None:
    """Show the searched folders and how to create an experiment."""
    folders = "".join(element("li", element("code", text(root))) for root in listed.roots)
    problems = "".join(element("p", text(problem), "trouble-text") for problem in listed.problems)
    show(
        element(
            "div",
            element("h2", "No experiments yet")
            + element("p", "No run bundle was found under")
            + element("ul", folders)
            + problems
            + element("p", "Collect one on a machine with a CUDA GPU, then reload this page:")
            + element(
                "pre",
                "pip install -e '.[collect]'    # in a clone of graphviz-dash\n"
                "graphviz-dash collect --workload mlp-train -o experiments/mlp-train",
            )
            + element(
                "p",
                "Or upload files on the Overview page: a zip of an experiment, or traces, "
                "graphs and snapshots from other tools.",
            )
            + element("p", "Or open the samples of a clone:")
            + element("pre", "graphviz-dash serve sample_traces"),
            "empty",
        )
    )


def empty(title: str, *lines: str, command: str | None = None) -> None:
    """Show an empty state: title, reason or advice, and the ``command`` to run."""
    body = "".join(element("p", text(line)) for line in lines)
    if command is not None:
        body += element("pre", text(command))
    show(element("div", element("h2", text(title)) + body, "empty"))


def nothing(page: str, runs: Sequence[Run], title: str, *lines: str) -> None:
    """Show the empty state of a page without content, with the command to collect it."""
    # Imports the analysis, which the first page does not need.
    from graphviz_dash.ui.page.gaps import gap_markup

    show(gap_markup(page, runs, title, lines))


def trouble(title: str, message: str) -> None:
    """Show an error about the page."""
    show(
        element(
            "div",
            element("h2", text(title)) + element("p", text(message), "trouble-text"),
            "empty trouble",
            role="alert",
        )
    )
