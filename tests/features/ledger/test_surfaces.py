from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphviz_dash import ui
from graphviz_dash.analysis.ledger.memory import LedgerPart
from graphviz_dash.analysis.ledger.report import LedgerReport, build_ledger_report
from graphviz_dash.app.report.report import generate_ledger_sections
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.charts.shades import Theme
from graphviz_dash.errors import InputError
from graphviz_dash.features.ledger.changes import parse_changes
from graphviz_dash.features.ledger.chart import (
    draw_memory_ledger,
    draw_startup,
    select_moments,
)
from graphviz_dash.features.ledger.narrative import GRAPH_COLUMNS, describe_graph, list_growths
from graphviz_dash.ingest.load import load_experiment, load_run
from graphviz_dash.model.ledger import Ledger, SampleKind, SpanKind
from graphviz_dash.ui.page.markup import format_legend
from tests import samples_once
from tests.cli.fixtures import Invoke
from tests.ledgers import MIB, SAMPLES, make_ledger, sample, span, write_server
from tests.ui.views.apptests import LookIn, markup, shown

SGLANG = samples_once.SAMPLES / "recorded-sglang" / "default-sizes"


def report_of(folder: Path, ledger: Ledger | None = None) -> LedgerReport:
    report = build_ledger_report(load_run(write_server(folder, ledger=ledger)))
    assert report is not None
    return report


def test_the_bundle_keeps_the_ledger(tmp_path: Path) -> None:
    assert read_bundle(write_server(tmp_path)).ledger == make_ledger()


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": tuple(reversed(SAMPLES)), "states": ()},
        {"samples": (sample(1, SampleKind.CONTEXT, 5, 1, 2),), "states": ()},
        {"samples": SAMPLES[:2]},
    ],
    ids=["samples out of order", "pools above the reserved memory", "a state without its sample"],
)
def test_inconsistent_ledgers_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        read_bundle(write_server(tmp_path, ledger=make_ledger(**changes)))


def test_the_terminal_shows_sums_graphs_times_and_savings(tmp_path: Path, invoke: Invoke) -> None:
    write_server(tmp_path / "server")
    text = invoke("memory", "--ledger", str(tmp_path / "server")).out
    assert "1.07 GiB in use after start-up, 1.4% of 78.1 GiB; 0 B without a known cause." in text
    assert re.search(r"^used \(cudaMemGetInfo\) +510 MiB +960 MiB +1.07 GiB +1.08 GiB$", text, re.M)
    assert re.search(r"^kernels and libraries: graph-0 +\+10.0 MiB$", text, re.M)
    assert re.search(r"^graph-0 +112 MiB +100 MiB +10.0 MiB +2.00 MiB +4.00 MiB", text, re.M)
    assert re.search(r"^wall clock +3.60 s", text, re.M)
    assert re.search(r"^Freeze the garbage .* 0 B +40.0 ms +measured$", text, re.M)
    assert re.search(r"^Capture only sizes that occur \(1 graph\) +6.00 MiB +200 ms", text, re.M)


def test_another_configuration(tmp_path: Path, invoke: Invoke) -> None:
    write_server(tmp_path / "server")
    arguments = ("--fit", "layers=4:8", "--fit", "512=1024", "--fit", "device=1GiB")
    text = invoke("memory", "--ledger", str(tmp_path / "server"), *arguments).out
    assert "does not fit in 1.00 GiB by" in text
    assert re.search(r"^weights +200 MiB +400 MiB$", text, re.M)
    assert re.search(r"^other tensors +48.0 MiB +192 MiB$", text, re.M)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("layers=3:6", "no list of 3 layers in recorded; expected 4"),
        ("513=1024", "no tensor with a dimension of 513 in recorded; expected "),
        ("sizes=4,2", "no known size of a graph in recorded; expected a run with one"),
    ],
)
def test_a_change_of_something_that_was_not_recorded_is_refused(
    tmp_path: Path, invoke: Invoke, change: str, message: str
) -> None:
    write_server(tmp_path / "server")
    done = invoke("memory", "--ledger", str(tmp_path / "server"), "--fit", change)
    assert done.code == 2
    assert message in done.err


def test_a_prediction_without_the_ledger_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    write_server(tmp_path / "server")
    done = invoke("memory", str(tmp_path / "server"), "--fit", "layers=4:8")
    assert done.code == 2
    assert "--fit needs --ledger or --json." in done.err


def test_a_run_without_tensors_shows_that_it_has_no_prediction(
    tmp_path: Path, invoke: Invoke
) -> None:
    write_server(tmp_path, "full")
    write_server(tmp_path, "empty", ledger=make_ledger(states=()))
    text = invoke("memory", "--ledger", str(tmp_path), "--fit", "layers=4:8").out
    assert text.count("No prediction: the recording lacks the layers") == 1
    assert text.count("Predicted: ") == 1
    assert invoke("memory", "--ledger", str(tmp_path), "--fit", "layers=3:8").code == 2


def test_a_recording_without_a_replay_shows_its_end(tmp_path: Path, invoke: Invoke) -> None:
    """A process that was killed during its captures."""
    ended = next(n for n, item in enumerate(SAMPLES) if item.kind is SampleKind.STARTUP_END)
    ledger = make_ledger(samples=SAMPLES[:ended], states=(), startup_end_ns=None)
    write_server(tmp_path / "server", ledger=ledger)
    text = invoke("memory", "--ledger", str(tmp_path / "server")).out
    assert "in use at the end of the recording" in text
    assert re.search(r"^ +context +before captures +end$", text, re.M)


def test_json_has_the_same_values(tmp_path: Path, invoke: Invoke) -> None:
    write_server(tmp_path / "server")
    text = invoke("memory", "--json", str(tmp_path / "server"), "--fit", "layers=4:8").out
    (ledger,) = json.loads(text)["ledgers"]
    for moment in ledger["moments"]:
        assert sum(moment["parts"].values()) == moment["used"]
    assert sum(ledger["startup"]["parts"].values()) == ledger["startup"]["total_ns"]
    assert [moment["used"] // MIB for moment in ledger["moments"]] == [510, 960, 1_100, 1_110]
    assert ledger["graphs"][0]["added_bytes"] == 112 * MIB
    assert sum(ledger["fit"]["parts"].values()) == ledger["fit"]["used"]
    assert {saving["basis"] for saving in ledger["savings"]} == {"measured", "predicted"}


def test_experiments_without_a_ledger_say_so(tmp_path: Path, invoke: Invoke) -> None:
    from tests.experiments import make_experiment

    make_experiment(tmp_path / "mlp")
    assert invoke("memory", "--ledger", str(tmp_path / "mlp")).out.startswith("No ledger:")
    assert json.loads(invoke("memory", "--json", str(tmp_path / "mlp")).out)["ledgers"] == []


@pytest.mark.parametrize(
    "text", ["", "layers=4", "layers=0:4", "ranks=2:0", "512", "a=b", "device=4", "sizes="]
)
def test_unknown_changes_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_changes([text])


def test_changes_are_read() -> None:
    change = parse_changes(["layers=4:8", "ranks=1:2", "512=1024", "sizes=8,1", "device=1.5GiB"])
    assert (change.layers, change.dimensions, change.sizes) == ((4, 8), ((512, 1024),), (8, 1))
    assert change.ranks == (1, 2)
    assert change.device_bytes == 3 << 29


def test_the_page_shows_the_same(roots: Path) -> None:
    write_server(roots / "server")
    page = shown("memory", experiment="server")
    text = markup(page)
    assert "1.07 GiB in use after start-up" in text
    assert "3.60 s from the start of the process to the first useful replay" in text
    assert "Freeze the garbage collector before the captures" in text
    (table,) = page.dataframe
    assert list(table.value["Graph"]) == ["graph-0", "graph-1", "graph-2"]
    assert list(table.value["Added (MiB)"]) == [112.0, 22.0, 6.0]


def test_the_report_shows_the_same(tmp_path: Path) -> None:
    write_server(tmp_path / "server")
    runs = load_experiment(tmp_path / "server").runs
    text = "".join(generate_ledger_sections(runs))
    assert "1.07 GiB in use after start-up" in text
    assert '<td class="name">wall clock</td><td class="n">3.60 s</td>' in text
    assert "Freeze the garbage collector before the captures" in text
    assert list(generate_ledger_sections(())) == []


def test_charts_draw_each_part_once(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    assert report.memory is not None
    figure = draw_memory_ledger(report.memory, "light")
    names = [trace.name for trace in figure.data]
    assert len(set(names)) == len(names)
    last = sum(trace.y[-1] for trace in figure.data)
    assert last == pytest.approx(report.memory.moments[-1].used / MIB)
    icicle = draw_startup(report.startup, "dark")
    assert icicle is not None
    assert sum(len(trace.y) for trace in icicle.data) == len(report.startup.boxes)
    empty = report_of(tmp_path / "empty", make_ledger(spans=()))
    assert draw_startup(empty.startup, "light") is None


def test_small_parts_are_visible_on_a_logarithmic_axis() -> None:
    """Graph pools of 46 MiB are 0.1 pixels of a stack of 130 GiB."""
    report = build_ledger_report(load_run(SGLANG, traces=False))
    assert report is not None
    assert report.memory is not None
    figure = draw_memory_ledger(report.memory, "light", log=True)
    assert all(trace.stackgroup is None for trace in figure.data)
    last = {trace.name: trace.y[-1] for trace in figure.data}
    parts = report.memory.moments[-1].parts
    assert {part.value: size / 2**30 for part, size in parts.items() if size} == {
        name: pytest.approx(value) for name, value in last.items() if value is not None
    }
    axis = figure.layout.yaxis
    assert axis.type == "log"
    ticks = dict(zip(axis.ticktext, axis.tickvals, strict=True))
    assert ticks["32.0 MiB"] == 32 / 1024


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_of_equal_colour_have_different_dashes(theme: Theme) -> None:
    """Free and fragmented memory are both grey."""
    report = build_ledger_report(load_run(SGLANG, traces=False))
    assert report is not None
    assert report.memory is not None
    moments = tuple(
        replace(moment, parts=dict.fromkeys(LedgerPart, MIB)) for moment in report.memory.moments
    )
    figure = draw_memory_ledger(replace(report.memory, moments=moments), theme, log=True)
    lines = {(trace.line.color, trace.line.dash) for trace in figure.data}
    assert len(lines) == len(figure.data) == len(LedgerPart)
    style = (Path(ui.__file__).parent / "assets/style.css").read_text()
    for key in figure.layout.meta["keys"]:
        assert f".chart-key i.{key['dash']}::before" in style


def test_the_growth_of_all_reserved_memory_is_not_called_a_pool() -> None:
    """In recorded-decoder, 2 of the 56 MiB of the first capture are outside its pool."""
    run = load_run(samples_once.SAMPLES / "recorded-decoder" / "frugal", traces=False)
    report = build_ledger_report(run)
    assert report is not None
    assert run.loop is not None
    first, *_ = report.graphs
    growth = {cost.graph: cost.pool_growth_bytes for cost in run.loop.graphs}
    assert (first.reserved_bytes, growth[first.graph]) == (56 * MIB, 54 * MIB)
    titles = [column.title for column in GRAPH_COLUMNS]
    assert "Reserved" in titles
    assert "Pool" not in titles


def test_the_page_says_how_many_growths_it_lists(look_in: LookIn) -> None:
    look_in(SGLANG.parent)
    page = shown("memory")
    report = build_ledger_report(load_run(SGLANG, traces=False))
    assert report is not None
    assert report.memory is not None
    count = len(list_growths(report.memory))
    assert count > 12
    assert f"Growth outside the allocator, 12 of {count}" in markup(page)


def test_long_recordings_are_thinned_but_keep_their_peak(tmp_path: Path) -> None:
    samples = tuple(
        sample(10 * n, SampleKind.PERIODIC if n else SampleKind.CONTEXT, 510 + 40 * (n == 701))
        for n in range(1_000)
    )
    report = report_of(tmp_path, make_ledger(samples=samples, states=()))
    assert report.memory is not None
    moments = select_moments(report.memory.moments)
    assert len(moments) <= 401
    assert (moments[0], moments[-1]) == (report.memory.moments[0], report.memory.moments[-1])
    assert report.memory.peak in moments


def test_names_of_programs_stay_text(tmp_path: Path, invoke: Invoke) -> None:
    harm = "<b>\x1b[31m"
    ledger = make_ledger(spans=(span(SpanKind.WEIGHTS, 2_000, 2_600, harm),))
    write_server(tmp_path / "server", ledger=ledger)
    text = invoke("memory", "--ledger", str(tmp_path / "server")).out
    assert "\x1b" not in text
    icicle = draw_startup(report_of(tmp_path / "other", ledger).startup, "light")
    assert icicle is not None
    assert "<b>" not in str(icicle.to_dict())


def test_losses_of_captures_are_described(tmp_path: Path, invoke: Invoke) -> None:
    failed, *others = make_ledger().graphs
    graphs = (
        replace(failed, pool=None, failure=True),
        *(replace(graph, held_bytes=20 * MIB) for graph in others),
    )
    write_server(tmp_path / "server", ledger=make_ledger(graphs=graphs))
    text = invoke("memory", "--ledger", str(tmp_path / "server")).out
    assert "1 failed capture left 100 MiB reserved." in text
    assert "Captures of 2 graphs could not reuse 40.0 MiB that they freed" in text
    document = json.loads(invoke("memory", "--json", str(tmp_path / "server")).out)
    ledger = document["ledgers"][0]
    rows = {graph["graph"]: graph for graph in ledger["graphs"]}
    assert [rows[name]["failure"] for name in ("graph-0", "graph-1")] == [True, False]
    assert rows["graph-1"]["held_bytes"] == 20 * MIB


def test_each_process_has_a_row_with_its_rank_and_memory(tmp_path: Path, invoke: Invoke) -> None:
    for name, pid, device in (("worker", 20, 0), ("worker-2", 21, 1)):
        write_server(tmp_path, name, make_ledger(pid=pid, device=device))
    text = invoke("memory", "--ledger", str(tmp_path)).out
    assert re.search(r"^worker +Process 20, GPU 0\. +1\.06 GiB +3\.60 s$", text, re.M)
    assert re.search(r"^worker-2 +Process 21, GPU 1\. +1\.06 GiB +3\.60 s$", text, re.M)
    document = json.loads(invoke("memory", "--json", str(tmp_path)).out)
    processes = {item["run"]: item["process"] for item in document["ledgers"]}
    assert processes["worker-2"]["pid"] == 21
    assert processes["worker-2"]["memory"] == 1_090 * MIB


def test_the_legend_of_the_page_has_all_parts(tmp_path: Path) -> None:
    memory = report_of(tmp_path).memory
    assert memory is not None
    every_part = replace(memory.moments[0], parts=dict.fromkeys(LedgerPart, MIB))
    figure = draw_memory_ledger(replace(memory, moments=(every_part,)), "light")
    legend = format_legend(figure.layout.meta["keys"])
    assert legend.count("<span>") == len(LedgerPart)
    assert '<i class="level"' in legend
    looks = {(area.fillcolor, area.fillpattern.shape) for area in figure.data}
    assert len(looks) == len(LedgerPart)


def test_a_graph_shows_its_memory_and_its_start(tmp_path: Path) -> None:
    first, second, _ = report_of(tmp_path).graphs
    added, start = describe_graph(first)
    assert added == (
        "Its capture added 112 MiB: 100 MiB of reserved memory, 10.0 MiB of kernels, "
        "2.00 MiB of executable."
    )
    assert start == "Start-up: capture 100 ms, instantiation 50.0 ms, first launch 2.00 ms."
    shared = replace(
        second,
        exclusive_bytes=MIB,
        shared_bytes=3 * MIB,
        shared_with=("graph-0",),
        returned_bytes=0,
    )
    assert describe_graph(shared)[1:3] == (
        "1.00 MiB of the pool are exclusive, 3.00 MiB are shared with 1 other graph.",
        "Dropping it returned 0 B.",
    )


def test_the_page_of_a_graph_shows_the_same(roots: Path) -> None:
    write_server(roots / "server")
    text = markup(shown("graph", experiment="server", graph="graph-0"))
    assert "Its capture added 112 MiB" in text
