"""What the Graph page says of a graph above its drawing."""

from __future__ import annotations

from graphviz_dash.analysis.nodes.whole_graph import WholeGraph
from graphviz_dash.features.graph.diff_narrative import launch_answer, launch_sentence
from graphviz_dash.features.graph.page.state.graphs import device_launch
from graphviz_dash.model.run import Run
from graphviz_dash.ui.page.markup import element, show, text
from graphviz_dash.units import counted, format_count, format_ns, format_percent


def graph_summary(key: str, run: Run, whole: WholeGraph) -> None:
    """The graph in numbers, and what can be done with it."""
    show(element("p", text(_in_numbers(whole)), "muted"))
    show(element("p", text(_life(key, run, whole)), "muted"))


def _life(key: str, run: Run, whole: WholeGraph) -> str:
    """What can be done with the graph: a device-side launch; what is disabled in it."""
    graph = whole.table.graph
    recorded = next((other.device_launch for other in run.graphs if other.id == graph.id), None)
    answer = launch_sentence(device_launch(key, run.name, graph.id))
    driver = "" if recorded is None else f"; the driver answered {launch_answer(recorded)}"
    if recorded is not None and answer == launch_answer(recorded):
        driver = ", as the driver confirmed"
    line = f"Device-side launch: {answer}{driver}."
    disabled = sum(row.node.enabled is False for row in whole.table.rows)
    if disabled:
        nodes_are = "1 node is" if disabled == 1 else f"{format_count(disabled)} nodes are"
        line += f" {nodes_are} disabled in the graph exec."
    if graph.captured_as is not None:
        line += (
            f" Read from the {graph.read_by}: dependencies between nodes are not known, the edges "
            "say that replays ran them one after another on one stream."
        )
    return line


def _in_numbers(whole: WholeGraph) -> str:
    table = whole.table
    rows = table.rows
    inside = len(rows) - len(whole.top)
    parts = [
        counted(len(rows), "node")
        + (f" ({format_count(inside)} of them inside others)" if inside else "")
        + f", {counted(len(table.graph.edges), 'edge')}",
        f"{format_count(table.attributed)} lead to an operator "
        f"({format_percent(table.attributed / len(rows)) if rows else '–'})",
    ]
    if table.replays:
        parts.append(
            f"{format_count(table.matched_kernels)} of {format_count(table.replay_kernels)} GPU "
            f"rows of {counted(table.replays, 'replay')} of the {table.timed_in} matched"
        )
        parts.append(f"{format_ns(whole.work_ns)} of GPU work, sum of the nodes' medians")
    return " · ".join(parts)
