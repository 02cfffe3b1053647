"""What all pages share: the choice of experiment and run in the address, and empty states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import streamlit as st

from graphviz_dash.errors import InputError
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.ui.catalogue import Catalogue, Entry, catalogue
from graphviz_dash.ui.markup import element, show, text
from graphviz_dash.ui.store import STORE


@dataclass(frozen=True)
class Chosen:
    """The experiment that a page shows."""

    entry: Entry
    experiment: Experiment

    @property
    def key(self) -> str:
        """Its key in the store."""
        return self.entry.key


def theme() -> Literal["light", "dark"]:
    """The theme that the visitor sees."""
    return "dark" if st.context.theme.type == "dark" else "light"


def enter_page(path: str) -> None:
    """Notes which page is shown. The navigation drops what the address says: a page that is newly
    entered without an experiment in its address goes on with the one seen last."""
    seen = st.session_state.get("seen-experiment")
    entered = st.session_state.get("page") != path
    st.session_state["page"] = path
    if entered and seen and "experiment" not in st.query_params:
        st.session_state["experiment"] = seen


def choose_experiment() -> Chosen:
    """The picker of the experiment, bound to ``?experiment=``, and what it chose.

    Ends the page with an explanation when there is none, or when it cannot be read.
    """
    found = catalogue()
    if not found.entries:
        no_experiments(found)
        st.stop()
    names = list(found.entries)
    known = st.session_state.get("experiment") or st.query_params.get("experiment")
    if known not in names:
        st.session_state["experiment"] = names[0]
    name = st.selectbox(
        "Experiment",
        names,
        # Without a default the address always says which experiment is shown.
        index=None,
        key="experiment",
        bind="query-params",
        width=340,
    )
    name = name or names[0]
    st.session_state["seen-experiment"] = name
    entry = found.entries[name]
    try:
        with st.spinner(f"Reading {name}", show_time=True):
            experiment = STORE.experiment(entry.key)
    except InputError as error:
        trouble("This experiment cannot be read", str(error))
        st.stop()
    return Chosen(entry, experiment)


def choose_run(runs: list[Run], label: str = "Run") -> Run:
    """The picker of one of ``runs`` (at least one), bound to ``?run=``."""
    names = [run.name for run in runs]
    name = st.segmented_control(
        label,
        names,
        default=names[0],
        required=True,
        key="run",
        bind="query-params",
        persist_state="session",
    )
    return next((run for run in runs if run.name == name), runs[0])


def no_experiments(found: Catalogue) -> None:
    """Says where was looked, and how to make an experiment."""
    places = "".join(element("li", element("code", text(root))) for root in found.roots)
    problems = "".join(element("p", text(problem), "trouble-text") for problem in found.problems)
    show(
        element(
            "div",
            element("h3", "No experiments yet")
            + element("p", "No run bundle was found under")
            + element("ul", places)
            + problems
            + element("p", "Collect one on a machine with a CUDA GPU, then reload this page:")
            + element(
                "pre",
                "pip install 'graphviz-dash[collect]'\n"
                "graphviz-dash collect --workload mlp-train -o experiments/mlp-train",
            )
            + element("p", "or upload one on the Overview page."),
            "empty",
        )
    )


def empty(title: str, *lines: str) -> None:
    """An empty state: what is not there, and why or what to do."""
    body = "".join(element("p", text(line)) for line in lines)
    show(element("div", element("h3", text(title)) + body, "empty"))


def trouble(title: str, message: str) -> None:
    """An error that concerns the page, in one line."""
    show(
        element(
            "div",
            element("h3", text(title)) + element("p", text(message), "trouble-text"),
            "empty trouble",
            role="alert",
        )
    )
