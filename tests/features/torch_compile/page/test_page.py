from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from streamlit.testing.v1 import AppTest

from graphviz_dash.bundle import parts
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.bundle.write import BundleWriter
from graphviz_dash.model.compilation import Compilation
from graphviz_dash.model.run import FORMAT_VERSION, FileRole
from graphviz_dash.ui.state import catalogue
from tests.features.torch_compile.test_compiled import BREAK, FRAMES
from tests.ui.views.apptests import LookIn
from tests.ui.views.test_pages import markup
from tests.ui.views.test_pages import shown as page_shown

SAMPLE = Path(__file__).parents[4] / "sample_traces" / "capture-schemes"


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    catalogue.get_roots.cache_clear()
    yield tmp_path / "told"
    catalogue.get_roots.cache_clear()


def write_run(folder: Path, compilation: Compilation) -> None:
    """The sample's compiled run, untimed, with an account of its compilation."""
    sample = read_bundle(SAMPLE / "compile")
    trace = shutil.copy(SAMPLE / "compile/traces/replay.json.gz", folder.parent.parent / "t.gz")
    with BundleWriter(folder) as writer:
        writer.add(parts.COMPILATION, compilation)
        writer.add_trace(FileRole.REPLAY_TRACE, Path(trace))
        writer.commit(
            msgspec.structs.replace(sample.manifest, version=FORMAT_VERSION, files=(), absent=())
        )


def _show() -> None:
    import streamlit as st

    from graphviz_dash.features.torch_compile.page import page as compile_page
    from graphviz_dash.ui.page.navigation import get_page, list_pages

    st.navigation(list_pages(), position="hidden")
    assert get_page("compile")
    compile_page.render()


def shown() -> str:
    test = AppTest.from_function(_show, default_timeout=60)
    test.query_params["experiment"] = "told"
    test.run()
    assert not test.exception
    return " ".join(str(block.value) for block in test.get("html"))


def test_a_break_is_told_with_its_line_and_what_to_write_instead(experiment: Path) -> None:
    write_run(experiment / "compile", Compilation("2.11", (), frames=FRAMES, breaks=(BREAK,)))
    page = shown()
    for words in ("Printing, logging or warning", "model.py:8", "print(x)", "Graph launches"):
        assert words in page
    # The chart comes last, into room that is kept.
    assert re.search(r"\.st-key-step-parts { min-height: calc\(\d{3}px", page)


def test_the_doctor_shows_the_causes_and_what_came_of_each_rule(experiment: Path) -> None:
    write_run(experiment / "compile", Compilation("2.11", (), frames=FRAMES, breaks=(BREAK,)))
    told = markup(page_shown("doctor", experiment="told"))
    for words in ("torch.compile: 1 cause", "model.py:8", "print(x)", "torch.compile rules"):
        assert words in told
    assert "1 broken" in told


def test_a_run_without_an_account_is_told_how_to_get_one(experiment: Path) -> None:
    shutil.copytree(SAMPLE / "compile", experiment / "compile")
    command = (
        "collect --workload benchmarks.capture_schemes:train --modes compile "
        "-o capture-schemes-again"
    )
    assert command in shown()


def test_an_experiment_that_compiled_nothing_says_so(experiment: Path) -> None:
    shutil.copytree(SAMPLE / "eager", experiment / "eager")
    assert "No compiled runs" in shown()


def test_a_traced_step_is_not_called_untimed(look_in: LookIn) -> None:
    """Eager steps of SGLang in the window are not comparable with its median step."""
    look_in(SAMPLE.parent / "recorded-sglang")
    text = markup(page_shown("compile"))
    assert "Traced step" in text
    assert "under the profiler" in text
    assert "no step was timed" not in text


def test_an_unrecorded_compilation_took_an_unknown_time(look_in: LookIn) -> None:
    # Dynamo, Inductor and Triton were busy for 15 s, but torch logged no compilation of vLLM.
    look_in(SAMPLE.parent / "recorded-vllm")
    text = markup(page_shown("compile"))
    assert "compile time not recorded" in text
    assert "0 ns spent compiling" not in text
    assert "0 compilations" not in text
    look_in(SAMPLE.parent / "recorded-sglang")
    text = markup(page_shown("compile"))
    assert "by line, in 1 compilation" in text
    assert "2.67 s spent compiling" in text
