"""Shared elements of all pages: top bar, selected experiment and run, and empty states."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

import streamlit as st
from msgspec import Struct

from graphviz_dash.charts.shades import ACCENT, BORDER, IDLE, PAGE, WARNING, Theme, get_colour
from graphviz_dash.errors import InputError, WorkerError, escape_control_characters
from graphviz_dash.ingest.load import list_run_folders
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.ui.page import url_state
from graphviz_dash.ui.page.help import show_help_panel
from graphviz_dash.ui.page.listing import get_listing, toast_changes, toast_damaged_caches
from graphviz_dash.ui.page.loading import load_experiment, show_load_button
from graphviz_dash.ui.page.markup import (
    escape_html,
    format_element,
    format_legend,
    format_text,
    show_markup,
    show_paragraph,
)
from graphviz_dash.ui.page.navigation import dim_links, draw_links, get_title
from graphviz_dash.ui.page.registry import PAGES
from graphviz_dash.ui.state.catalogue import Catalogue, Entry
from graphviz_dash.ui.state.scratch import SCRATCH
from graphviz_dash.ui.state.store import STORE, Extent

T = TypeVar("T")

_EXPERIMENT_PARAMETERS: Final = (
    "graph",
    "node",
    "against",
    "select",
    "step",
    "runs",
    "ruler",
    "trace",
)
"""URL parameters that are meaningless in another experiment."""

_DRAW_SECONDS: Final = 0.015
_MAX_NAMES: Final = 200
"""Number of experiments above which the palette asks the server for their names."""


class SelectedExperiment(Struct, frozen=True):
    """The experiment that a page shows."""

    entry: Entry
    experiment: Experiment

    @property
    def key(self) -> str:
        """Key in the store."""
        return self.entry.key


def get_theme() -> Theme:
    """Return the visitor's theme."""
    return "dark" if st.context.theme.type == "dark" else "light"


def get_figure(
    key: str, figure_key: Hashable, build: Callable[[Theme], T], extent: Extent = Extent.FULL
) -> T:
    """Return the cached figure ``figure_key`` of the experiment ``key`` in the visitor's theme.

    Building a Plotly figure costs 30 ms.
    """
    theme = get_theme()
    return STORE.derive(key, ("figure", figure_key, theme), lambda _: build(theme), extent)


def flush_to_browser() -> None:
    """Give the browser time to draw before more elements follow.

    The front end batches everything within 10 ms, so the first elements would appear 0.1 s later.
    """
    time.sleep(_DRAW_SECONDS)


def draw_figure(figure: Any, key: str) -> None:
    """Draw a themed Plotly figure, if any, with legend and axis title as HTML that wraps."""
    if figure is None:
        return
    bare = {"displayModeBar": False, "displaylogo": False}
    # With a fixed height the page is laid out before Plotly is loaded.
    height: Any = figure.layout.height or "content"
    labels = figure.layout.meta
    if labels is None:
        st.plotly_chart(figure, theme=None, config=bare, key=key, height=height)
        return
    with st.container(gap=None):
        if labels["keys"]:
            show_markup(format_legend(labels["keys"]))
        st.plotly_chart(figure, theme=None, config=bare, key=key, height=height)
        if "axis" in labels:
            show_paragraph(labels["axis"], "axis-title")


def show_fold(label: str, key: str, show: Callable[[], object], icon: str | None = None) -> None:
    """Show an expander, and its content by ``show`` once it is open.

    Closed tables and charts would cost the browser as much as open ones.
    """
    fold = st.expander(label, icon=icon, key=f"fold-{key}", on_change="rerun")
    if fold.open:
        with fold:
            show()


def draw_top_bar(page: str) -> None:
    """Draw the page links and, except on the overview, the experiment picker."""
    show_markup(_format_css_variables(get_theme()))
    with st.container(key="top-bar", horizontal=True, vertical_alignment="center", gap="small"):
        logo = '<img src="/assets/logo.svg" alt="">'
        brand = format_element("div", logo + format_element("span", "graphviz-dash"), "brand")
        entry = find_selected_entry() if PAGES[page].shows_experiment else None
        if not PAGES[page].shows_title:
            suffix = "" if entry is None else f" of {escape_html(entry.name)}"
            brand += format_element("h1", f"{get_title(page)}{suffix}", "unseen")
        st.html(brand, width="content")
        draw_links(page, entry.key if entry else None)
        if PAGES[page].shows_experiment:
            _draw_experiment_picker()
        else:
            st.space("stretch")
        st.html(_format_bar_buttons(page, entry), width="content")
        show_help_panel(page)


def _format_bar_buttons(page: str, entry: Entry | None) -> str:
    """Format the buttons for the palette and for sharing."""
    folders = list_run_folders(entry.path) if entry and entry.pair is None else []
    names = list(get_listing(uses_cache=page == "overview").entries)
    data = {
        "experiment": entry and entry.name,
        "key": entry and entry.key,
        # Thousands of names, sent and drawn with each page, would delay it by 0.1 s.
        "experiments": names if len(names) <= _MAX_NAMES else None,
        "runs": [folder.name for folder in folders],
        "pages": [(name, row.title) for name, row in PAGES.items()],
    }
    return format_element(
        "div",
        _format_button(
            "open-palette", "search", "Go to", "Go to an experiment, run or node (Ctrl+K)"
        )
        + _format_button("share-link", "link", "Share", "Copy the link of this view"),
        "bar-buttons",
        **{"data-palette": json.dumps(data)},
    )


def _format_button(kind: str, icon: str, label: str, help_text: str) -> str:
    symbol = format_element("i", "", **{"data-icon": icon, "aria-hidden": "true"})
    content = symbol + format_text("span", label, role="status")
    return format_element("button", content, kind, type="button", title=help_text)


def _format_css_variables(theme: Theme) -> str:
    colours = {"idle": IDLE, "warn": WARNING, "accent": ACCENT, "page": PAGE, "border": BORDER}
    declarations = ";".join(
        f"--{name}:{get_colour(colour, theme)}" for name, colour in colours.items()
    )
    return format_element("style", f":root{{{declarations}}}")


def _draw_experiment_picker() -> None:
    listed = get_listing()
    names = list(listed.entries)
    if not names:
        return
    st.space("stretch")
    requested = url_state.get_experiment() or names[0]
    if requested not in names and listed.find_entry(requested) is not None:
        names.append(requested)
    selected = requested if requested in names else None
    st.selectbox(
        "Experiment",
        names,
        # With a default the field cannot be cleared.
        index=None if selected is None else 0,
        placeholder="Select an experiment",
        label_visibility="collapsed",
        width=260,
        **url_state.build_widget_arguments(url_state.EXPERIMENT, selected, _select_experiment),
    )


def _select_experiment(name: str | None) -> None:
    if name:
        url_state.set_parameters(
            {url_state.EXPERIMENT: name} | dict.fromkeys(_EXPERIMENT_PARAMETERS)
        )


def build_tab_title(page: str) -> str:
    """The title of the browser's tab: the experiment and the page."""
    entry = find_selected_entry() if PAGES[page].shows_experiment else None
    parts = [] if entry is None else [escape_control_characters(entry.name)]
    return " · ".join((*parts, get_title(page), "graphviz-dash"))


def find_selected_entry() -> Entry | None:
    """Return the experiment named in the address, else the last one seen, else the first.

    None if there are no experiments, or none with that name.
    """
    listed = get_listing()
    name = url_state.get_experiment() or next(iter(listed.entries), None)
    return None if name is None else listed.find_entry(name)


def load_selected_experiment(*, warned: bool = False) -> SelectedExperiment:
    """Return the selected experiment, or end the page with an explanation.

    Warns of speedups from wrong results, unless the page has ``warned`` already.
    """
    # Imports the analysis, which the first page does not need.
    from graphviz_dash.narrative.doctor import format_unsound_warning
    from graphviz_dash.ui.page.contents import get_empty_pages
    from graphviz_dash.ui.page.widgets import format_differences, format_incomplete_traces

    listed = get_listing()
    if not listed.entries:
        show_no_experiments(listed)
        st.stop()
    name = url_state.get_experiment() or next(iter(listed.entries))
    entry = listed.find_entry(name)
    if entry is None:
        show_empty_state(
            "Experiment not found",
            f"The address names {name}, which is not among the {len(listed.entries)} "
            "experiments found. Select one at the top.",
        )
        st.stop()
    url_state.set_parameters({url_state.EXPERIMENT: name})
    toast_changes([entry])
    try:
        experiment = load_experiment(entry.key, name)
    except (InputError, WorkerError) as error:
        show_error_panel("Experiment cannot be read", str(error))
        st.stop()
    if experiment is None:
        show_empty_state("Loading cancelled", f"The traces of {name} were not loaded completely.")
        show_load_button()
        st.stop()
    toast_damaged_caches(entry)
    dim_links(entry.key, get_empty_pages(entry.key))
    unsound = "" if warned else format_unsound_warning(experiment.runs)
    if unsound:
        show_markup(format_text("div", unsound, "failed", role="note"))
    if entry.pair is not None:
        show_markup(format_differences(*experiment.runs))
    if notes := format_incomplete_traces(experiment.runs):
        show_markup(notes)
    return SelectedExperiment(entry, experiment)


def dim_empty_pages(entry: Entry) -> None:
    """Dim the links to pages without content, without loading the experiment."""
    # Imports the analysis, which the first page does not need.
    from graphviz_dash.ui.page.contents import get_empty_pages

    try:
        extent = Extent.FULL if STORE.is_loaded(entry.key) else Extent.OUTLINE
        dim_links(entry.key, get_empty_pages(entry.key, extent))
    except InputError:
        # The affected pages report the error.
        return


def select_run(runs: list[Run], *, default: str | None = None, clears: tuple[str, ...] = ()) -> Run:
    """Show a picker for one of ``runs`` (at least one), stored as ``?run=``."""
    names = [run.name for run in runs]
    name = url_state.select_option("run", "Run", names, default=default, clears=clears)
    return runs[names.index(name)]


def show_no_experiments(listed: Catalogue) -> None:
    """Show the searched folders and how to create an experiment."""
    folders = "".join(format_element("li", format_text("code", root)) for root in listed.roots)
    problems = "".join(format_text("p", problem, "trouble-text") for problem in listed.problems)
    show_markup(
        format_element(
            "div",
            format_element("h2", "No experiments yet")
            + format_element("p", "No run bundle was found under")
            + format_element("ul", folders)
            + problems
            + format_element(
                "p", "Collect one on a machine with a CUDA GPU, then reload this page:"
            )
            + format_element(
                "pre",
                "pip install -e '.[collect]'    # in a clone of graphviz-dash\n"
                "graphviz-dash collect --workload mlp-train -o experiments/mlp-train",
            )
            + format_element(
                "p",
                "Or upload files on the Overview page: a zip of an experiment, or traces, "
                "graphs and snapshots from other tools.",
            )
            + format_element("p", "Or open the samples of a clone:")
            + format_element("pre", "graphviz-dash serve sample_traces"),
            "empty",
        )
    )


def show_empty_state(title: str, *lines: str, command: str | None = None) -> None:
    """Show an empty state: title, reason or advice, and the ``command`` to run."""
    body = "".join(format_text("p", line) for line in lines)
    if command is not None:
        body += format_text("pre", command)
    show_markup(format_element("div", format_text("h2", title) + body, "empty"))


def show_missing_content(page: str, runs: Sequence[Run], title: str, *lines: str) -> None:
    """Show the empty state of a page, with the command to collect its content."""
    # Imports the analysis, which the first page does not need.
    from graphviz_dash.ui.page.widgets import format_gap

    show_markup(format_gap(page, runs, title, lines))


def show_error_panel(title: str, message: str) -> None:
    """Show an error about the page."""
    show_markup(
        format_element(
            "div",
            format_text("h2", title)
            + format_text("p", SCRATCH.hide_paths(message), "trouble-text"),
            "empty trouble",
            role="alert",
        )
    )
