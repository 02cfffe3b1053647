"""Overview: every experiment with its outcome, and a place to upload one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from graphviz_dash.analysis.answer import answer_text
from graphviz_dash.analysis.compare import Comparison
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import Run
from graphviz_dash.ui.catalogue import Catalogue, Entry, catalogue
from graphviz_dash.ui.frame import no_experiments, theme, trouble
from graphviz_dash.ui.markup import element, plain, show, text
from graphviz_dash.ui.navigation import link
from graphviz_dash.ui.pieces import (
    doctor_notes,
    failure_notes,
    has_trace,
    hero,
    incomplete_notes,
    time_bars,
    waiting_bars,
    why,
)
from graphviz_dash.ui.results import comparison, comparison_known, outcome
from graphviz_dash.ui.store import STORE
from graphviz_dash.ui.uploads import UPLOADS
from graphviz_dash.units import format_count

_COLUMNS: Final = 2
_DRAWING_S: Final = 0.7
"""How long the browser has to draw the cards before traces are read, which takes all cores."""


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
    unread: list[tuple[Entry, DeltaGenerator]] = []
    for first in range(0, len(cells), _COLUMNS):
        columns = st.columns(_COLUMNS, gap="medium")
        for column, entry in zip(columns, cells[first : first + _COLUMNS], strict=False):
            with column:
                if entry is None:
                    show(_own())
                    continue
                with st.container(border=True, height="stretch", key=f"card-{entry.key}"):
                    place = _card(entry)
                if place is not None:
                    unread.append((entry, place))
    if unread:
        time.sleep(_DRAWING_S)
    for entry, place in unread:
        with place:
            _read(entry)


def _own() -> str:
    """How to see a workload of one's own here."""
    return element(
        "div",
        element("h2", "Your own workload")
        + element("p", "On a machine with a CUDA GPU, then reload this page:")
        + element(
            "pre",
            "pip install -e '.[collect]'    # in a clone of graphviz-dash\n"
            "graphviz-dash collect --workload package.module:factory "
            "\\\n    --modes eager,graph -o experiments/mine",
        )
        + element("p", "Or a program as it is, once without graphs and once with them:")
        + element(
            "pre",
            "graphviz-dash collect -o experiments/mine --name eager \\\n    -- python train.py\n"
            "graphviz-dash collect -o experiments/mine --name graphed \\\n"
            "    -- python train.py --cuda-graph",
        )
        + element("p", "Without a GPU here: zip the folder there and open it above.", "muted"),
        "empty own",
    )


def _title(found: Catalogue) -> str:
    count = len(found.entries)
    places = ", ".join(_shown(root) for root in found.roots)
    return element("h1", "Experiments") + element(
        "p", text(f"{count or 'None'} found in {places}"), "muted places"
    )


def _shown(folder: Path) -> str:
    """The folder as a reader in the working folder would type it."""
    here = Path.cwd()
    return str(folder.relative_to(here)) if folder.is_relative_to(here) else str(folder)


def _card(entry: Entry) -> DeltaGenerator | None:
    """An experiment, and the place of what its traces tell, where they are not read yet."""
    known = comparison_known(entry.key)
    try:
        result = comparison(entry.key) if known else outcome(entry.key)
        runs = STORE.bare(entry.key).runs
    except InputError as error:
        trouble(f"{entry.name} cannot be read", str(error))
        return None
    place = st.empty()
    with place:
        show(_facts(entry, result, reading=not known))
    query = {"experiment": entry.name}
    with st.container(horizontal=True, gap="small", key=f"links-{entry.key}"):
        link("compare", "Compare", query)
        if any(run.graphs for run in runs):
            link("graph", "Graph", query)
        if any(map(has_trace, runs)):
            link("timeline", "Timeline", query)
        if any(run.manifest.rank is not None for run in runs):
            link("ranks", "Ranks", query)
        if any(run.doctor for run in runs):
            link("doctor", "Doctor", query)
        link("export", "Export", query)
    return None if known else place


def _read(entry: Entry) -> None:
    """Draws an experiment anew with what its traces tell."""
    try:
        show(_facts(entry, comparison(entry.key)))
    except InputError as error:
        trouble(f"{entry.name} cannot be read", str(error))


def _facts(entry: Entry, result: Comparison, *, reading: bool = False) -> str:
    best = result.best
    manifest = result.runs[0].run.manifest
    runs = STORE.bare(entry.key).runs if reading else STORE.experiment(entry.key).runs
    pieces = (
        element(
            "div",
            element("h2", text(entry.name))
            + element(
                "span", text(f"{manifest.environment.gpu_name} · {manifest.created[:10]}"), "where"
            ),
            "card-title",
        ),
        hero(best) if best else _uncompared(result, reading=reading),
        failure_notes(result),
        _imported(runs),
        doctor_notes(result),
        incomplete_notes(run.run for run in result.runs),
        waiting_bars(result) if reading else time_bars(result, theme()),
        why(result, best, reading=reading),
    )
    return "".join(pieces)


def _uncompared(result: Comparison, *, reading: bool) -> str:
    """Why no speedup is told, which may hang on the traces; what failed has its own note."""
    if any(run.failures for run in result.runs):
        return ""
    reason = "Reading the traces…" if reading else answer_text(result.answer)
    return element("p", text(reason), "uncompared")


def _imported(runs: Sequence[Run]) -> str:
    """What the imported runs were made from; nothing for an experiment without any."""
    found = [run for run in runs if run.manifest.sources]
    if not found:
        return ""
    kinds = Counter(source.kind for run in found for source in run.manifest.sources)
    files = ", ".join(f"{count} × {kind}" for kind, count in kinds.items())
    nodes = sum(len(graph.nodes) for run in found for graph in run.graphs)
    graphs = sum(len(run.graphs) for run in found)
    rows = sum(run.replay_trace.gpu.height for run in found if run.replay_trace)
    facts = [f"Imported from {files}"]
    if graphs:
        plural = "graph" if graphs == 1 else "graphs"
        facts.append(f"{format_count(graphs)} {plural} of {format_count(nodes)} nodes")
    if rows:
        facts.append(f"{format_count(rows)} kernels, copies and sets on the GPU")
    return element("p", text("; ".join(facts) + "."), "muted")


def _upload() -> None:
    with st.popover("Open files from this computer", icon=":material/upload:"):
        st.caption(
            "A zip file of an experiment's folder, as `zip -r mlp-train.zip mlp-train` makes it. "
            "Or what other programs wrote: Kineto traces (of a capture, of its replays), a CUDA "
            "debug DOT, an Nsight Systems SQLite export, graph data or a memory snapshot of torch. "
            "They stay on this server until it ends; nothing in them is executed."
        )
        files = st.file_uploader(
            "Files", label_visibility="collapsed", accept_multiple_files=True, key="upload-files"
        )
        done: dict[str, str] = st.session_state.setdefault("uploaded", {})
        archives = [file for file in files if file.name.lower().endswith(".zip")]
        foreign = [file for file in files if file not in archives]
        # What was dropped stays listed: each archive counts by itself, other files together.
        lots = [[archive] for archive in archives] + ([foreign] if foreign else [])
        opened = [_opened(lot, done) for lot in lots]
        if any(opened):
            st.rerun()
        for lot in lots:
            if name := done.get(_ident(lot)):
                st.success(f"Opened as {plain(name)}", icon=":material/check:")


def _ident(files: list[Any]) -> str:
    return " ".join(sorted(file.file_id for file in files))


def _opened(files: list[Any], done: dict[str, str]) -> bool:
    """Opens what was uploaded, an archive or other files, unless that is done; whether it did."""
    if _ident(files) in done:
        return False
    try:
        with st.spinner("Reading and checking"):
            if files[0].name.lower().endswith(".zip"):
                folder = UPLOADS.add(files[0].name, files[0])
            else:
                folder = UPLOADS.import_files([(file.name, file) for file in files])
    except InputError as error:
        trouble("This file cannot be opened", str(error))
        return False
    done[_ident(files)] = folder.name
    return True
