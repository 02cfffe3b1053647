"""Show a summary of a graph above its drawing."""

from __future__ import annotations

from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.features.graph.diff_narrative import launch_answer, launch_sentence
from graphviz_dash.features.graph.page.state.graphs import device_launch
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.units import counted, format_count, format_ns, format_percent


def graph_summary(key: str, run: Run, whole: WholeGraph) -> None:
    """Show the size of the graph and its launch options."""
    show(element("p", text(_in_numbers(whole)), "muted"))
    show(element("p", text(_life(key, run, whole)), "muted"))


def _life(key: str, run: Run, whole: WholeGraph) -> str:
    graph = whole.table.graph
    recorded = next((other.device_launch for other in run.graphs if other.id == graph.id), None)
    verdict = launch_sentence(device_launch(key, run.name, graph.id))
    driver = "" if recorded is None else f"; the driver returned {launch_answer(recorded)}"
    if recorded is not None and verdict == launch_answer(recorded):
        driver = ", confirmed by the driver"
    line = f"Device-side launch: {verdict}{driver}."
    disabled = sum(row.node.enabled is False for row in whole.table.rows)
    if disabled:
        nodes_are = "1 node is" if disabled == 1 else f"{format_count(disabled)} nodes are"
        line += f" {nodes_are} disabled in the graph exec."
    if graph.captured_as is not None:
        line += (
            f" Read from the {graph.read_by}: node dependencies are unknown. The edges show "
            "the order in which replays ran the nodes on one stream."
        )
    return line


def _in_numbers(whole: WholeGraph) -> str:
    table = whole.table
    rows = table.rows
    nested = len(rows) - len(whole.top)
    parts = [
        counted(len(rows), "node")
        + (f" ({format_count(nested)} of them nested)" if nested else "")
        + f", {counted(len(table.graph.edges), 'edge')}",
        f"{format_count(table.attributed)} attributed to operators "
        f"({format_percent(table.attributed / len(rows)) if rows else '–'})",
    ]
    if table.replays:
        parts.append(
            f"{format_count(table.matched_kernels)} of {format_count(table.replay_kernels)} "
            f"GPU records matched in {counted(table.replays, 'replay')} of the {table.timed_in}"
        )
        parts.append(f"{format_ns(whole.work_ns)} of GPU work (sum of node medians)")
    return " · ".join(parts)
