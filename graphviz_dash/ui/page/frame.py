"""What all pages share: the bar at the top, the chosen experiment and run, and empty states."""

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
"""Parameters that mean nothing in another experiment."""

_DRAWN_S: Final = 0.015


class Chosen(Struct, frozen=True):
    """The experiment that a page shows."""

    entry: Entry
    experiment: Experiment

    @property
    def key(self) -> str:
        """Its key in the store."""
        return self.entry.key


def theme() -> Theme:
    """The theme that the visitor sees."""
    return "dark" if st.context.theme.type == "dark" else "light"


def figure(key: str, what: Hashable, build: Callable[[Theme], T]) -> T:
    """The figure ``what`` of the experiment ``key`` in the visitor's theme, built once: Plotly
    takes 30 ms for each."""
    seen = theme()
    return STORE.derived(key, ("figure", what, seen), lambda _: build(seen))


def loop_figure(key: str, what: Hashable, build: Callable[[Theme], T]) -> T:
    """As :func:`figure`, of what is made of a program's loop alone: nothing else is read for it."""
    seen = theme()
    return STORE.derived_loops(key, ("figure", what, seen), lambda: build(seen))


def bare_figure(key: str, what: Hashable, build: Callable[[Theme], T]) -> T:
    """As :func:`figure`, of what is made without the traces, which are not read for it."""
    seen = theme()
    return STORE.derived_bare(key, ("figure", what, seen), lambda _: build(seen))


def let_draw() -> None:
    """Waits until the browser draws what was sent, before more follows. The front end draws at once
    what comes within 10 ms, and what a visitor sees first would else be seen with the last of the
    page, 0.1 s later."""
    time.sleep(_DRAWN_S)


def draw(figure: Any, key: str) -> None:
    """A Plotly figure of the charts package, which has its theme already. What it leaves to the
    page, a legend and the title of its axis, stands above and below it, in lines that break."""
    bare = {"displayModeBar": False, "displaylogo": False}
    # Told its height, the page keeps the room while Plotly is loaded, and is shown before.
    room: Any = figure.layout.height or "content"
    words = figure.layout.meta
    if words is None:
        st.plotly_chart(figure, theme=None, config=bare, key=key, height=room)
        return
    with st.container(gap=None):
        if words["keys"]:
            show(chart_key(words["keys"]))
        st.plotly_chart(figure, theme=None, config=bare, key=key, height=room)
        show(element("p", text(words["axis"]), "axis-title"))


def top_bar(page: str) -> None:
    """The links to the pages and, except on the overview, the experiment."""
    show(_variables(theme()))
    with st.container(key="top-bar", horizontal=True, vertical_alignment="center", gap="small"):
        logo = '<img src="/assets/logo.svg" alt="">'
        brand = element("div", logo + element("span", "graphviz-dash"), "brand")
        if not PAGES[page].shows_title:
            entry = chosen_entry()
            of = "" if entry is None else f" of {text(entry.name)}"
            brand += element("h1", f"{title_of(page)}{of}", "unseen")
        st.html(brand, width="content")
        links(page)
        if PAGES[page].shows_experiment:
            _experiment_picker()
        else:
            st.space("stretch")
        help_panel(page)


def _variables(seen: Theme) -> str:
    """The palette's colours that the style sheet refers to."""
    named = {"idle": IDLE, "warn": WARNING, "accent": ACCENT, "page": PAGE}
    listed = ";".join(f"--{name}:{shade(colour, seen)}" for name, colour in named.items())
    return element("style", f":root{{{listed}}}")


def _experiment_picker() -> None:
    listed = listing()
    names = list(listed.entries)
    if not names:
        return
    st.space("stretch")
    asked = url_state.experiment() or names[0]
    if asked not in names and listed.entry(asked) is not None:
        names.append(asked)
    shown = asked if asked in names else None
    st.selectbox(
        "Experiment",
        names,
        # With a default it cannot be emptied.
        index=None if shown is None else 0,
        placeholder="Choose an experiment",
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
    """The experiment that the address names, else the one seen last, else the first; None where
    there is none, or none of that name."""
    listed = listing()
    name = url_state.experiment() or next(iter(listed.entries), None)
    return None if name is None else listed.entry(name)


def chosen_experiment(*, warned: bool = False) -> Chosen:
    """The experiment that the address names, else the one seen last, else the first; a warning
    stands above it where its speedups are of a wrong result, unless the page itself has
    ``warned``.

    Ends the page with an explanation when there is none, or when it cannot be read.
    """
    # The analysis, which the first page of all does not wait for.
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
            "This experiment is not here",
            f"The address names {name}, which is none of the {len(listed.entries)} experiments "
            "found. Choose one at the top.",
        )
        st.stop()
    url_state.change({url_state.EXPERIMENT: name})
    tell_changes([entry])
    try:
        experiment = experiment_read(entry.key, name)
    except (InputError, WorkerError) as error:
        trouble("This experiment cannot be read", str(error))
        st.stop()
    if experiment is None:
        empty("Reading was stopped", f"The traces of {name} were not read to their end.")
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
    """Dims the links to pages that have nothing to show of ``entry``, on a page that does not read
    the whole experiment."""
    # The analysis, which the first page of all does not wait for.
    from graphviz_dash.ui.page.contents import empty_pages

    try:
        dim(empty_pages(STORE.outlines(entry.key)))
    except InputError:
        # The pages that it concerns say what is wrong.
        return


def choose_run(runs: list[Run], *, default: str | None = None, clears: tuple[str, ...] = ()) -> Run:
    """The picker of one of ``runs`` (at least one), which is ``?run=`` in the address."""
    names = [run.name for run in runs]
    name = url_state.choose("run", "Run", names, default=default, clears=clears)
    return runs[names.index(name)]


def no_experiments(listed: Catalogue) -> None:
    """Says where was looked, and how to make an experiment."""
    places = "".join(element("li", element("code", text(root))) for root in listed.roots)
    problems = "".join(element("p", text(problem), "trouble-text") for problem in listed.problems)
    show(
        element(
            "div",
            element("h2", "No experiments yet")
            + element("p", "No run bundle was found under")
            + element("ul", places)
            + problems
            + element("p", "Collect one on a machine with a CUDA GPU, then reload this page:")
            + element(
                "pre",
                "pip install -e '.[collect]'    # in a clone of graphviz-dash\n"
                "graphviz-dash collect --workload mlp-train -o experiments/mlp-train",
            )
            + element(
                "p",
                "Or open what you have on the Overview page: a zip of an experiment, or traces, "
                "graphs and snapshots that other programs wrote.",
            )
            + element("p", "Or look at the samples of a clone first:")
            + element("pre", "graphviz-dash serve sample_traces"),
            "empty",
        )
    )


def empty(title: str, *lines: str, command: str | None = None) -> None:
    """An empty state: what is not there, and why or what to do, with the ``command`` that does."""
    body = "".join(element("p", text(line)) for line in lines)
    if command is not None:
        body += element("pre", text(command))
    show(element("div", element("h2", text(title)) + body, "empty"))


def nothing(page: str, runs: Sequence[Run], title: str, *lines: str) -> None:
    """The empty state of a page that ``runs`` have nothing for: why, and the command that gets
    it."""
    # The analysis, which the first page of all does not wait for.
    from graphviz_dash.ui.page.gaps import gap_markup

    show(gap_markup(page, runs, title, lines))


def trouble(title: str, message: str) -> None:
    """An error that concerns the page, in one line."""
    show(
        element(
            "div",
            element("h2", text(title)) + element("p", text(message), "trouble-text"),
            "empty trouble",
            role="alert",
        )
    )
