from __future__ import annotations

import csv
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.nodes.node_table import build_node_table
from graphviz_dash.analysis.nodes.whole_graph import ExpandedGraph, expand_graph
from graphviz_dash.app.cli.main import main
from graphviz_dash.dot_text import quote_dot
from graphviz_dash.errors import InputError, escape_control_characters
from graphviz_dash.exports.tables import build_node_frame, format_csv, format_parquet, write_table
from graphviz_dash.features.graph.dot_export import export_dot
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.graph import CapturedGraph, EdgeType, GraphEdge
from tests.analysis.nodes.test_whole_graph import whole_of
from tests.analysis.replays.test_conditionals import GRAPHS
from tests.builders import STEP, captured_graph, make_experiment, make_run
from tests.gold import assert_gold

HOSTILE = '"]; a -> b; [label="=cmd|x" \\N \\" <b>&lt;\n\x1b[2J'


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_experiment(tmp_path_factory.mktemp("tables") / "toy")


def _named(*names: str) -> ExpandedGraph:
    work = tuple(replace(STEP[1], name=name, module=name) for name in names)
    graph = captured_graph(work)
    return ExpandedGraph.from_table(build_node_table(graph, attribute_graph(graph), None))


class TestDot:
    def test_the_graph_is_the_gold_file(self, toy: Path, tmp_path: Path) -> None:
        run = load_experiment(toy).runs[1]
        export_dot(expand_graph(run, "graph-0"), "toy graph-0", tmp_path / "t.dot")
        text = (tmp_path / "t.dot").read_text(encoding="utf-8")
        assert_gold(text, Path(__file__).parent / "gold" / "toy.dot")

    def test_a_hostile_name_stays_within_its_quotes(self, tmp_path: Path) -> None:
        export_dot(_named(HOSTILE, "plain"), HOSTILE, tmp_path / "t.dot")
        text = (tmp_path / "t.dot").read_text(encoding="utf-8")
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        assert outside.splitlines() == [
            'digraph "" {',
            '  node [fontname="", fontsize=10, shape=ellipse];',
            '  n0 [label="", tooltip="", shape=box];',
            '  n1 [label="", tooltip="", shape=box];',
            "  n0 -> n1;",
            "}",
        ]
        assert "\x1b" not in text

    @pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
    def test_graphviz_reads_it(self, tmp_path: Path) -> None:
        export_dot(_named(HOSTILE, "plain"), HOSTILE, tmp_path / "t.dot")
        done = subprocess.run(
            ["dot", "-Tplain", tmp_path / "t.dot"], capture_output=True, check=True, timeout=60
        )
        assert done.stdout.count(b"\nnode ") == 2

    def test_programmatic_edges_and_ports(self, tmp_path: Path) -> None:
        graph = captured_graph(STEP[:2])
        edges = (GraphEdge(0, 1, 1, 0, EdgeType.PROGRAMMATIC),)
        special = CapturedGraph("g", graph.nodes, edges, "test")
        table = build_node_table(special, attribute_graph(special), None)
        export_dot(ExpandedGraph.from_table(table), "t", tmp_path / "t.dot")
        assert 'n0 -> n1 [style=dashed, label="1:0"];' in (tmp_path / "t.dot").read_text()

    def test_bodies_are_clusters(self, tmp_path: Path) -> None:
        whole = whole_of(GRAPHS, [["m0", "yes", "shared", "one", "m4"]])
        export_dot(whole, "t", tmp_path / "t.dot")
        text = (tmp_path / "t.dot").read_text(encoding="utf-8")
        assert text.count("{") == text.count("}") == 1 + len(GRAPHS[1:])
        then = text.split('subgraph "cluster graph-0.1.0" {')[1].split("}")[0]
        assert 'label="If: then (graph-0.1.0)"' in then
        assert re.findall(r"^ +(n\d+) \[", then, re.MULTILINE) == ["n6", "n7"]
        assert '  n1 -> n6 [style=dotted, lhead="cluster graph-0.1.0"];' in text

    @pytest.mark.parametrize("text", ["", "a", '"', "\\", '\\"', "\\\\", "a\nb"])
    def test_quoting(self, text: str) -> None:
        assert re.fullmatch(r'"(?:[^"\\]|\\.)*"', quote_dot(text))


class TestTables:
    def test_a_row_for_each_node(self, toy: Path, tmp_path: Path) -> None:
        frame = build_node_frame(
            expand_graph(load_experiment(toy).runs[1], "graph-0"),
            Missing(Fact.TRACED_PASS, "not asked for"),
        )
        write_table(frame, tmp_path / "t.parquet")
        read = pl.read_parquet(tmp_path / "t.parquet")
        assert read.equals(frame)
        assert read["name"].to_list() == [
            w.name if w.kind == "Kernel" else w.node(0).label for w in STEP
        ]
        assert read["op"].to_list() == [w.op for w in STEP]
        assert read["median_ns"].to_list() == [float(w.duration) for w in STEP]
        assert read["replays"].to_list() == [3] * len(STEP)
        assert read["grid_x"].to_list() == [w.grid[0] if w.kind == "Kernel" else None for w in STEP]

    def test_bodies_follow_the_graph_that_holds_them(self) -> None:
        whole = whole_of(GRAPHS, [["m0", "yes", "shared", "turn", "shared", "m4"]])
        frame = build_node_frame(whole, Missing(Fact.TRACED_PASS, "not asked for"))
        assert frame["graph"].unique(maintain_order=True).to_list() == [g.id for g in GRAPHS]
        rows = {(row["graph"], row["node"]): row for row in frame.to_dicts()}
        assert len(rows) == frame.height == sum(len(graph.nodes) for graph in GRAPHS)
        assert rows["graph-0", 1]["conditional"] == "If"
        assert rows["graph-0", 1]["bodies"] == "graph-0.1.0 graph-0.1.1"
        assert rows["graph-0.1.0", 1]["replays"] == 1
        assert "last iteration" in rows["graph-0.2.0", 0]["note"]
        assert "only if its condition holds" in rows["graph-0.1.1", 0]["note"]

    def test_a_name_breaks_no_line_of_csv(self) -> None:
        names = ("a\n=1+1", "b\r\n::error::c", "\u2028d", "\x1b[31me\u202e", "plain \u00e9 <f>")
        frame = pl.DataFrame({"name": [*names, None], "count": range(6)})
        text = format_csv(frame).decode()
        assert (text.count("\n"), text.count("\r")) == (7, 0)
        shown = list(csv.DictReader(text.splitlines()))
        assert [row["name"] for row in shown] == [*map(escape_control_characters, names), ""]
        assert pl.read_parquet(format_parquet(frame))["name"].to_list() == [*names, None]

    @pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
    def test_a_formula_is_no_formula_in_csv(self, tmp_path: Path, start: str) -> None:
        frame = build_node_frame(
            _named(f"{start}HYPERLINK(1)", "a=b"), Missing(Fact.TRACED_PASS, "not asked for")
        )
        write_table(frame, tmp_path / "t.csv")
        with (tmp_path / "t.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["name"] for row in rows] == [
            f"'{escape_control_characters(start)}HYPERLINK(1)",
            "a=b",
        ]
        assert rows[0]["median_ns"] == ""
        assert len(rows[0]) == frame.width

    def test_numbers_keep_their_sign(self, tmp_path: Path) -> None:
        write_table(pl.DataFrame({"change_ns": [-1.5], "name": ["-x"]}), tmp_path / "t.csv")
        assert (tmp_path / "t.csv").read_text() == "change_ns,name\n-1.5,'-x\n"

    def test_another_suffix_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="csv"):
            write_table(pl.DataFrame({"a": [1]}), tmp_path / "t.xlsx")


class TestCommands:
    def test_kernels(self, toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "k.csv"
        assert main(["export", "kernels", str(toy), "-o", str(file)]) == 0
        assert capsys.readouterr().out == f"{file}\n"
        read = pl.read_csv(file)
        assert set(read["run"]) == {"eager", "graph"}
        assert read.filter(pl.col("run") == "graph")["count"].sum() == len(STEP)

    @pytest.mark.parametrize("name", ["n.csv", "n.parquet"])
    def test_nodes(self, toy: Path, tmp_path: Path, name: str) -> None:
        arguments = ["nodes", str(toy / "graph"), "-o", str(tmp_path / name)]
        assert main(["export", *arguments, "--graph", "graph-0"]) == 0
        assert (tmp_path / name).stat().st_size > 100

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["dot", "eager"], "without a captured graph"),
            (["nodes", "graph", "--graph", "graph-7"], "graph-0"),
            (["dot", "missing"], "missing"),
        ],
    )
    def test_an_impossible_export_is_an_error(
        self,
        toy: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        arguments: list[str],
        told: str,
    ) -> None:
        what, run, *more = arguments
        file = tmp_path / "t.csv"
        assert main(["export", what, str(toy / run), "-o", str(file), *more]) == 2
        assert told in capsys.readouterr().err
        assert not file.exists()

    def test_dot(self, tmp_path: Path) -> None:
        make_run(tmp_path / "toy", "graph")
        file = tmp_path / "g.dot"
        assert main(["export", "dot", str(tmp_path / "toy" / "graph"), "-o", str(file)]) == 0
        assert file.read_text().count(" -> ") == len(STEP) - 1
