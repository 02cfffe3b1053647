from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from graphviz_dash.analysis.comparison.compare import compare_runs
from graphviz_dash.app.hosting import cards_client, cards_process
from graphviz_dash.app.hosting.cards_client import (
    MAX_OPENED,
    CardMessage,
    FirstCards,
    Message,
    PassMessage,
    SearchMessage,
)
from graphviz_dash.app.hosting.server import ASSETS, list_routes
from graphviz_dash.app.overview import experiment_card
from graphviz_dash.app.overview import page as overview
from graphviz_dash.app.overview.experiment_card import build_card, build_card_message
from graphviz_dash.bundle import read
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.cache_folder import CACHE_VARIABLE
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.ingest.summaries import get_default_summaries
from graphviz_dash.ui.page.time_bars import format_placeholder_bars, format_time_bars
from graphviz_dash.ui.page.widgets import format_changes, format_hero
from graphviz_dash.ui.state import catalogue
from graphviz_dash.ui.state.results import get_comparison, get_comparison_without_traces
from graphviz_dash.ui.state.store import STORE, Extent
from tests.builders import STEP, make_experiment, make_run
from tests.ingest.test_load import replace_trace
from tests.samples import SAMPLES

FIRST_PAGE = """
import sys
import streamlit
from graphviz_dash.app.hosting import lifespan
before = set(sys.modules)
lifespan._prepare()
print(*sorted({one.split(".")[0] for one in set(sys.modules) - before}))
package = "graphviz_dash.analysis"
reasons = {package, f"{package}.absence", f"{package}.failures"}
print(*{name for name in sys.modules if name.startswith(package)} - reasons)
"""


@pytest.fixture
def cards() -> Iterator[FirstCards]:
    found = FirstCards()
    yield found
    found.stop()


@pytest.mark.parametrize("sample", ["recorded-server", "mlp-train", "all-nodes"])
def test_a_first_card_is_the_same_without_reading_graphs(
    sample: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = load_experiment(SAMPLES / sample, traces=False)
    expected = build_card(compare_runs(bare), bare, None)

    def refuse(*_: object) -> None:
        raise AssertionError("a graph was read")

    monkeypatch.setattr(read, "_read_graphs", refuse)
    assert build_card_message(SAMPLES / sample).card == expected


def test_a_process_tells_the_cards_of_the_overview(tmp_path: Path, cards: FirstCards) -> None:
    broken = make_experiment(tmp_path / "broken")
    shutil.rmtree(broken / "graph" / "graphs")
    path = make_experiment(tmp_path / "toy")
    cards.start([str(tmp_path)])
    told = cards.get_card(path)
    assert told is not None
    key = STORE.register(path)
    assert told == build_card(
        get_comparison_without_traces(key),
        STORE.load_experiment_of_key(key, Extent.NO_TRACES),
        None,
    )
    assert told.pages == ("compare", "graph", "timeline", "export")
    assert not STORE.is_loaded(key)
    assert cards.get_card(broken) is None
    make_run(path, "compile")
    assert cards.get_card(path) != told


def test_a_process_ends_by_itself_for_few_experiments(tmp_path: Path) -> None:
    make_run(tmp_path / "toy", "eager")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", cards_process.__name__, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    # Its input stays open.
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read().count(b"\n") == 2
    assert (process.wait(60), process.stderr.read()) == (0, b"")
    assert process.stdin is not None
    process.stdin.close()


OUTDATED_FIRST = """
import os, sys, time
from pathlib import Path
import msgspec
from graphviz_dash.app.hosting.cards_client import CardMessage, CardRequest
from graphviz_dash.ingest.identity import compute_identity
from graphviz_dash.app.overview.experiment_card import build_card_message

def write(message):
    os.write(1, msgspec.json.encode(message) + b"\\n")

for line in sys.stdin:
    request = msgspec.json.decode(line, type=CardRequest)
    message = build_card_message(Path(request.path))
    write(msgspec.structs.replace(message, identity=b"earlier", card=None))
    time.sleep(0.3)  # the reader sees the first message alone
    write(msgspec.structs.replace(message, request=request.number))
"""


def test_a_card_of_an_earlier_version_is_no_answer(
    tmp_path: Path, cards: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outdated_first.py").write_text(OUTDATED_FIRST)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(cards_client, "_PROGRAM", "outdated_first")
    path = make_experiment(tmp_path / "toy")
    cards.start([str(tmp_path)])
    assert cards.get_card(path) == build_card_message(path).card
    make_run(path, "compile")
    assert cards.get_card(path) == build_card_message(path).card


def test_a_process_stays_for_many_experiments(
    tmp_path: Path, cards: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = tmp_path / "served"
    for number in range(MAX_OPENED + 1):
        make_run(served / f"toy-{number:02d}", "eager")
    path = make_experiment(served / "toy-99", work=STEP)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    cards.start([str(served)])
    # The last experiment does not wait for the others, nor does an upload.
    full = cards.get_card(path, "light")
    result = compare_runs(load_experiment(path))
    assert full == build_card(result, result.experiment, "light")
    assert cards.find_current_card(path, "light") == full
    assert cards.find_current_card(path, "dark") is None
    assert cards.get_card(make_experiment(tmp_path / "uploaded")) is not None
    make_run(path, "compile")
    assert cards.find_current_card(path, "light") is None
    assert cards.get_card(path) == build_card_message(path).card
    assert cards.get_card(served / "toy-00") is not None
    process = cards._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()  # the server was killed
    assert process.wait(60) == 0


def test_changed_experiments_are_found_again(tmp_path: Path) -> None:
    now_s = [0.0]
    cards = FirstCards(lambda: now_s[0])
    served = tmp_path / "served"
    for number in range(MAX_OPENED + 1):
        make_run(served / f"toy-{number:02d}", "eager")
    folders = [served / f"toy-{number:02d}" for number in range(MAX_OPENED + 2)]
    cards.start([str(served)])
    try:
        _wait(lambda: cards.count_unknown(folders) == 1 and cards._last_pass_s is not None)
        make_run(folders[-1], "eager")
        cards.refresh()
        now_s[0] = 60.0
        assert cards.find_cards(folders[-1:]) == [None]
        cards.refresh()
        _wait(lambda: cards.count_unknown(folders) == 0)
        assert cards.find_cards(folders[-1:]) == [build_card_message(folders[-1]).card]
    finally:
        cards.stop()


def _wait(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_cards_from_the_catalogue_are_those_of_a_fresh_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = tmp_path / "served"
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    paths = [make_experiment(served / f"toy-{number}") for number in range(2)]
    settled = time.time_ns() + 60_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: settled)
    written: list[CardMessage] = []

    def patch_process(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(cards_process._Cards, "_write", lambda _, message: written.append(message))
        patch.setattr(cards_process._Cards, "_read_requests", lambda _: None)

    patch_process(monkeypatch)

    def write_all() -> list[CardMessage]:
        written.clear()
        cards_process._Cards((served,), get_default_summaries()).run()
        return [message for message in written if isinstance(message, CardMessage)]

    fresh = write_all()
    assert fresh == [build_card_message(path) for path in paths]
    monkeypatch.setattr(experiment_card, "build_card", None)
    assert write_all() == fresh
    monkeypatch.undo()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    patch_process(monkeypatch)
    (paths[0] / "about.txt").write_text("changed", encoding="utf-8")
    shutil.rmtree(paths[1])
    (changed,) = write_all()
    assert changed == build_card_message(paths[0]) != fresh[0]
    assert get_default_summaries().load("card", served).keys() <= {str(paths[0])}


def test_the_process_tells_what_a_large_folder_contains(
    tmp_path: Path, cards: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_experiment(tmp_path / "served" / "toy")
    written: list[Message] = []
    monkeypatch.setattr(cards_process._Cards, "_write", lambda _, message: written.append(message))
    monkeypatch.setattr(cards_process._Cards, "_read_requests", lambda _: None)
    process = cards_process._Cards((path.parent,), None)
    process.run()
    assert [type(message) for message in written] == [CardMessage, PassMessage]
    monkeypatch.setattr(catalogue, "_MAX_SEARCHED", 0)
    process.run()
    search = catalogue.search_folder(path.parent)
    # Before the cards, which the server can show as soon as it has the names.
    assert written[2:] == [SearchMessage(str(path.parent), search), PassMessage()]
    assert search.experiments == (("toy", path),)


def test_a_server_begins_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Sequence[str]] = []
    monkeypatch.setattr(FirstCards, "start", lambda _, arguments: started.append(arguments))
    for stored in (False, True):
        monkeypatch.setattr(cards_client, "preload_searches", lambda _, stored=stored: stored)
        cards = FirstCards()
        cards.begin(["folder"])
        cards._arguments = None if stored else ["folder"]
        cards.begin(["folder"])
        cards.start_prepared()
    assert started == [["folder"], ["folder"]]


def test_an_experiment_unreadable_at_the_start_is_read_again(
    tmp_path: Path, cards: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_experiment(tmp_path / "toy")
    graphs = path / "graph" / "graphs"
    graphs.rename(tmp_path / "aside")
    cards.start([str(tmp_path)])
    assert cards.get_card(path) is None
    monkeypatch.setattr(overview, "FIRST_CARDS", cards)
    entry = catalogue.Entry("toy", path)
    with pytest.raises(InputError, match="missing"):
        overview._get_first_card(entry)
    (tmp_path / "aside").rename(graphs)
    assert 'class="hero"' in overview._get_first_card(entry).outcome_markup


def test_an_unknown_experiment_waits_only_for_the_end_of_the_process(
    tmp_path: Path, cards: FirstCards
) -> None:
    later = tmp_path / "uploaded"
    assert cards.get_card(later) is None
    make_experiment(tmp_path / "toy")
    cards.start([str(tmp_path)])
    assert cards.get_card(later) is None


@pytest.mark.parametrize(
    "program", ["import sys; sys.exit(1)", "print('no JSON'); import time; time.sleep(60)"]
)
def test_the_server_makes_the_cards_itself_where_the_process_fails(
    tmp_path: Path, cards: FirstCards, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "failing.py").write_text(program, encoding="utf-8")
    monkeypatch.setattr(cards_client, "_PACKAGES", package)
    monkeypatch.setattr(cards_client, "_PROGRAM", "failing")
    path = make_experiment(tmp_path / "toy")
    cards.start([str(tmp_path)])
    assert cards.get_card(path) is None
    monkeypatch.setattr(overview, "FIRST_CARDS", cards)
    card = overview._get_first_card(catalogue.Entry("toy", path))
    assert 'class="hero"' in card.outcome_markup


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="the system has no such priorities")
def test_the_process_gives_way_to_another_page(
    tmp_path: Path, cards: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards.lower_priority()  # no process yet
    (tmp_path / "waiting.py").write_text("import time; time.sleep(60)", encoding="utf-8")
    monkeypatch.setattr(cards_client, "_PACKAGES", tmp_path)
    monkeypatch.setattr(cards_client, "_PROGRAM", "waiting")
    cards.start([])
    process = cards._process
    assert process is not None
    before = os.getpriority(os.PRIO_PROCESS, process.pid)
    cards.lower_priority()
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == max(before, 10)
    os.setpriority(os.PRIO_PROCESS, process.pid, 19)
    cards.lower_priority()
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="the system has no such priorities")
@pytest.mark.parametrize("fails", [False, True])
def test_a_session_gives_way_if_the_system_allows_it(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    if fails:
        monkeypatch.setattr(Path, "write_text", refuse)
    command = [sys.executable, "-c", "input()"]
    changes: dict[bool, bool] = {}
    for new_session in (True, False):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, start_new_session=new_session, stderr=subprocess.DEVNULL
        )
        group = Path(f"/proc/{process.pid}/autogroup")
        before = group.read_bytes() if group.exists() else b""
        cards_client.lower_priority(process.pid)
        after = group.read_bytes() if group.exists() else b""
        changes[new_session] = before != after
        assert os.getpriority(os.PRIO_PROCESS, process.pid) >= 10
        process.communicate()
    # The second process shares the session of its caller.
    assert not changes[False]
    assert not (fails and changes[True])


def test_nothing_is_imported_from_the_folder_that_the_server_works_in(
    tmp_path: Path, cards: FirstCards, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit(3)", encoding="utf-8")
    path = make_experiment(tmp_path / "toy")
    monkeypatch.chdir(tmp_path)
    cards.start(["."])
    assert cards.get_card(path) is not None


def test_the_first_page_waits_for_neither_analysis_nor_tables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PAGE], capture_output=True, text=True, check=True, timeout=120
    )
    packages, analysis = (set(line.split()) for line in done.stdout.split("\n")[:2])
    assert "graphviz_dash" in packages
    assert not {"numpy", "pandas", "polars", "pyarrow", "PIL"} & packages
    # Values and words of what is missing or failed, which import nothing.
    assert {name.rpartition(".")[2] for name in analysis} <= {"analysis", "absence", "failures"}


def test_summaries_of_the_cards_load_no_table_library() -> None:
    """The process of the cards starts with the server."""
    code = "import graphviz_dash.ingest.summaries, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not {"numpy", "polars", "pyarrow"} & set(done.stdout.split())


def test_the_icon_of_the_tab_is_ours() -> None:
    answer = TestClient(Starlette(routes=list_routes())).get("/favicon.png")
    assert answer.headers["content-type"] == "image/png"
    assert answer.content == (ASSETS / "icon.png").read_bytes()


def test_clean_figures_are_equal_with_and_without_traces(tmp_path: Path) -> None:
    key = STORE.register(make_experiment(tmp_path / "toy", work=STEP))
    before, bare = (
        get_comparison_without_traces(key),
        STORE.load_experiment_of_key(key, Extent.NO_TRACES),
    )
    assert [run.replay_trace or run.capture_trace for run in bare.runs] == [None, None]
    after = get_comparison(key)
    assert before.best is not None
    assert after.best is not None
    assert format_hero(before.best) == format_hero(after.best)
    for metric in ("speedup", "launch_cpu_time", "break_even", "peak_reserved_change"):
        assert before.best[metric] == after.best[metric]


def test_figures_from_traces_have_placeholders_until_they_are_read(tmp_path: Path) -> None:
    key = STORE.register(make_experiment(tmp_path / "toy", work=STEP))
    before, after = get_comparison_without_traces(key), get_comparison(key)
    waiting, drawn = format_placeholder_bars(before), format_time_bars(after, "light")
    assert 'role="status"' in waiting
    for kind in ("name", "bar", "time"):
        assert waiting.count(f'class="{kind}"') == drawn.count(f'class="{kind}"') == 2
    facts = format_changes(before, before.best, reading=True), format_changes(after, after.best)
    assert facts[0].count("<b>") == facts[1].count("<b>")
    assert facts[0].count("<b>…</b>") == 2


def test_graphs_are_held_once(tmp_path: Path) -> None:
    key = STORE.register(make_experiment(tmp_path / "toy"))
    alone = STORE.load_experiment_of_key(key, Extent.NO_TRACES).runs[1].graphs
    whole = STORE.load_experiment_of_key(key).runs[1].graphs
    assert whole is not alone
    assert STORE.load_experiment_of_key(key, Extent.NO_TRACES).runs[1].graphs is whole


def test_a_trace_that_cannot_be_read_is_told_in_the_place_of_its_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_experiment(tmp_path / "toy")
    replace_trace(path / "graph", b"no trace")
    entry = catalogue.Entry("toy", path)
    assert get_comparison_without_traces(entry.key).best is not None
    told: list[str] = []
    monkeypatch.setattr(overview, "show_error_panel", lambda *words: told.extend(words))
    monkeypatch.setattr(overview, "get_theme", lambda: "light")
    overview._load_card(entry, is_table=False, is_large=False)
    assert told[0] == "toy cannot be read"
