"""Upload and remove a visitor's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import streamlit as st

from graphviz_dash.errors import GraphvizDashError
from graphviz_dash.progress import watch
from graphviz_dash.ui.page.frame import show_error_panel
from graphviz_dash.ui.page.listing import get_visitor
from graphviz_dash.ui.page.markup import escape_markdown
from graphviz_dash.ui.page.navigation import show_link
from graphviz_dash.ui.state.catalogue import Catalogue, Entry
from graphviz_dash.ui.state.uploads import UPLOADS

_RESULTS: Final = "uploaded"
"""Session key: experiment folder or error of each batch of files."""


def show_upload_panel(listed: Catalogue) -> None:
    """Show the upload field and the result of uploads."""
    with st.popover("Upload", icon=":material/upload:"):
        st.caption(
            "Upload a zip file of an experiment folder (`zip -r mlp-train.zip mlp-train`), or "
            "files from other tools: Kineto traces of a capture and its replays, a CUDA debug "
            "DOT, an Nsight Systems SQLite export, torch graph data or a torch memory "
            "snapshot. Only this browser can see them. They are deleted when you remove them, "
            "a minute after you close your last page here, or when the server stops. Nothing "
            "in them is executed."
        )
        files = st.file_uploader(
            "Files", label_visibility="collapsed", accept_multiple_files=True, key="chosen-files"
        )
        outcomes: dict[str, Path | GraphvizDashError] = st.session_state.setdefault(_RESULTS, {})
        archives = [file for file in files if file.name.lower().endswith(".zip")]
        foreign = [file for file in files if file not in archives]
        # Uploaded files stay listed: each archive is one batch, all other files are another.
        batches = [[archive] for archive in archives] + ([foreign] if foreign else [])
        new_batches = [lot for lot in batches if _format_batch_id(lot) not in outcomes]
        for lot in new_batches:
            outcomes[_format_batch_id(lot)] = _import_files(lot)
        if any(isinstance(outcomes[_format_batch_id(lot)], Path) for lot in new_batches):
            st.rerun()
        for lot in batches:
            _show_result(outcomes[_format_batch_id(lot)], listed)


def show_remove_button(entry: Entry) -> None:
    """Show a button that removes an uploaded experiment."""
    st.button(
        "Remove",
        icon=":material/delete:",
        type="tertiary",
        key=f"remove-{entry.key}",
        on_click=UPLOADS.remove,
        args=(get_visitor(), entry.path),
    )


def _show_result(outcome: Path | GraphvizDashError, listed: Catalogue) -> None:
    if isinstance(outcome, GraphvizDashError):
        show_error_panel("File cannot be opened", str(outcome))
        return
    for entry in listed.entries.values():
        if entry.path.resolve() == outcome:
            st.success(f"Opened as {escape_markdown(entry.name)}", icon=":material/check:")
            show_link("compare", "Open", {"experiment": entry.name})


def _format_batch_id(files: list[Any]) -> str:
    return " ".join(sorted(file.file_id for file in files))


def _import_files(files: list[Any]) -> Path | GraphvizDashError:
    bar_slot = st.empty()

    def show_progress(share: float) -> None:
        # Also stops reading if the visitor has left.
        bar_slot.progress(share, "Reading and checking")

    try:
        with watch(show_progress):
            if files[0].name.lower().endswith(".zip"):
                folder = UPLOADS.add(get_visitor(), files[0].name, files[0])
            else:
                named_files = [(file.name, file) for file in files]
                folder = UPLOADS.import_files(get_visitor(), named_files)
    except GraphvizDashError as error:
        return error
    finally:
        bar_slot.empty()
    return folder.resolve()
