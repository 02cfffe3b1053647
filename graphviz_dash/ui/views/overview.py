"""Overview: every experiment with its outcome, and a place to upload one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import streamlit as st

from graphviz_dash.errors import InputError
from graphviz_dash.ui.catalogue import Catalogue, Entry, catalogue
from graphviz_dash.ui.frame import no_experiments, theme, trouble
from graphviz_dash.ui.markup import element, plain, show, text
from graphviz_dash.ui.navigation import link
from graphviz_dash.ui.pieces import (
    doctor_notes,
    failure_notes,
    hero,
    incomplete_notes,
    time_bars,
    why,
)
from graphviz_dash.ui.results import comparison
from graphviz_dash.ui.store import STORE
from graphviz_dash.ui.uploads import UPLOADS

_COLUMNS: Final = 2


def render() -> None:
    """The page."""
    found = catalogue()
    with st.container(horizontal=True, vertical_alignment="center"):
        show(_title(found))
        st.space("stretch")
        _upload()
    for problem in found.problems:
        trouble("A folder could not be searched", problem)
    if not found.entries:
        no_experiments(found)
        return
    cells: list[Entry | None] = [*found.entries.values(), None]
    for first in range(0, len(cells), _COLUMNS):
        columns = st.columns(_COLUMNS, gap="medium")
        for column, entry in zip(columns, cells[first : first + _COLUMNS], strict=False):
            with column:
                if entry is None:
                    show(_own())
                    continue
                with st.container(border=True, height="stretch", key=f"card-{entry.key}"):
                    _card(entry)


def _own() -> str:
    """How to see a workload of one's own here."""
    return element(
        "div",
        element("h2", "Your own workload")
        + element("p", "On a machine with a CUDA GPU, then reload this page:")
        + element(
            "pre",
            "pip install 'graphviz-dash[collect]'\n"
            "graphviz-dash collect --workload package.module:factory "
            "\\\n    --modes eager,graph -o experiments/mine",
        )
        + element("p", "Or a program as it is, once without graphs and once with them:")
        + element(
            "pre",
            "graphviz-dash collect -o experiments/mine --name eager \\\n    -- python train.py",
        )
        + element("p", "Without a GPU here: zip the folder there and open it above.", "muted"),
        "empty own",
    )


def _title(found: Catalogue) -> str:
    count = len(found.entries)
    places = ", ".join(_shown(root) for root in found.roots)
    return element("h1", "Experiments") + element(
        "p", text(f"{count or 'None'} found in {places}"), "muted"
    )


def _shown(folder: Path) -> str:
    """The folder as a reader in the working folder would type it."""
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def _card(entry: Entry) -> None:
    try:
        with st.spinner(f"Reading {plain(entry.name)}"):
            result = comparison(entry.key)
    except InputError as error:
        trouble(f"{entry.name} cannot be read", str(error))
        return
    best = result.best
    manifest = result.runs[0].run.manifest
    show(
        element(
            "div",
            element("h2", text(entry.name))
            + element(
                "span", text(f"{manifest.environment.gpu_name} · {manifest.created[:10]}"), "where"
            ),
            "card-title",
        ),
        hero(best) if best else "",
        failure_notes(result),
        doctor_notes(STORE.experiment(entry.key).runs),
        incomplete_notes(run.run for run in result.runs),
        time_bars(result, theme()),
        why(result, best),
    )
    query = {"experiment": entry.name}
    with st.container(horizontal=True, gap="small", key=f"links-{entry.key}"):
        link("compare", "Compare", query)
        if any(run.run.graphs for run in result.runs):
            link("graph", "Graph", query)
        if any(run.run.replay_trace for run in result.runs):
            link("timeline", "Timeline", query)
        if any(run.run.manifest.rank is not None for run in result.runs):
            link("ranks", "Ranks", query)
        if any(run.doctor for run in STORE.experiment(entry.key).runs):
            link("doctor", "Doctor", query)
        link("export", "Export", query)


def _upload() -> None:
    with st.popover("Open an experiment from this computer", icon=":material/upload:"):
        st.caption(
            "A zip file of the experiment's folder, as `zip -r mlp-train.zip mlp-train` makes it. "
            "It stays on this server until it ends; nothing in it is executed."
        )
        file = st.file_uploader("Experiment", type="zip", label_visibility="collapsed")
        if file is None:
            return
        done: dict[str, str] = st.session_state.setdefault("uploaded", {})
        if file.file_id not in done:
            try:
                with st.spinner("Unpacking and checking"):
                    done[file.file_id] = UPLOADS.add(file.name, file).name
            except InputError as error:
                trouble("This file cannot be opened", str(error))
                return
            st.rerun()
        st.success(f"Opened as {plain(done[file.file_id])}", icon=":material/check:")
