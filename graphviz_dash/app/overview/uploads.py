"""Where a visitor opens files of his own, and removes what he opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import streamlit as st

from graphviz_dash.errors import InputError
from graphviz_dash.progress import watched
from graphviz_dash.ui.page.frame import trouble
from graphviz_dash.ui.page.listing import visitor
from graphviz_dash.ui.page.markup import plain
from graphviz_dash.ui.page.navigation import link
from graphviz_dash.ui.state.catalogue import Catalogue, Entry
from graphviz_dash.ui.state.uploads import UPLOADS

_DONE: Final = "uploaded"
"""Of each lot of files of this session: the folder of its experiment, or why there is none."""


def upload_panel(listed: Catalogue) -> None:
    """A place to drop files, and what became of those that were dropped."""
    with st.popover("Open files from this computer", icon=":material/upload:"):
        st.caption(
            "A zip file of an experiment's folder, as `zip -r mlp-train.zip mlp-train` makes it. "
            "Or what other programs wrote: Kineto traces (of a capture, of its replays), a CUDA "
            "debug DOT, an Nsight Systems SQLite export, graph data or a memory snapshot of torch. "
            "Only this browser sees them. They leave the server when you remove them, a minute "
            "after your last page here is closed, or when the server ends; nothing in them is "
            "executed."
        )
        files = st.file_uploader(
            "Files", label_visibility="collapsed", accept_multiple_files=True, key="chosen-files"
        )
        done: dict[str, Path | InputError] = st.session_state.setdefault(_DONE, {})
        archives = [file for file in files if file.name.lower().endswith(".zip")]
        foreign = [file for file in files if file not in archives]
        # What was dropped stays listed: each archive counts by itself, other files together.
        lots = [[archive] for archive in archives] + ([foreign] if foreign else [])
        new = [lot for lot in lots if _ident(lot) not in done]
        for lot in new:
            done[_ident(lot)] = _opened(lot)
        if any(isinstance(done[_ident(lot)], Path) for lot in new):
            st.rerun()
        for lot in lots:
            _tell(done[_ident(lot)], listed)


def remove_button(entry: Entry) -> None:
    """Removes an experiment that the visitor uploaded."""
    st.button(
        "Remove",
        icon=":material/delete:",
        type="tertiary",
        key=f"remove-{entry.key}",
        on_click=UPLOADS.remove,
        args=(visitor(), entry.path),
    )


def _tell(outcome: Path | InputError, listed: Catalogue) -> None:
    if isinstance(outcome, InputError):
        trouble("This file cannot be opened", str(outcome))
        return
    for entry in listed.entries.values():
        if entry.path.resolve() == outcome:
            st.success(f"Opened as {plain(entry.name)}", icon=":material/check:")
            link("compare", "Look at it", {"experiment": entry.name})


def _ident(files: list[Any]) -> str:
    return " ".join(sorted(file.file_id for file in files))


def _opened(files: list[Any]) -> Path | InputError:
    """The folder of the experiment made of what was uploaded, an archive or other files; or why
    there is none."""
    bar_slot = st.empty()

    def show_progress(share: float) -> None:
        # Also ends the reading where the visitor has left.
        bar_slot.progress(share, "Reading and checking")

    try:
        with watched(show_progress):
            if files[0].name.lower().endswith(".zip"):
                folder = UPLOADS.add(visitor(), files[0].name, files[0])
            else:
                named = [(file.name, file) for file in files]
                folder = UPLOADS.import_files(visitor(), named)
    except InputError as error:
        return error
    finally:
        bar_slot.empty()
    return folder.resolve()
