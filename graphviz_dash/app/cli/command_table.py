"""The commands by task, each with its short help and its module.

Help and shell completion read only this table, so that modules are imported on demand.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ListedCommand(NamedTuple):
    """A row of the table."""

    name: str
    target: str | None
    """Module and attribute of the click command; None for an entry point."""
    short_help: str
    """What it does, in at most 60 characters."""


def _list_command(name: str, target: str, short_help: str) -> ListedCommand:
    return ListedCommand(name, f"graphviz_dash.{target}", short_help)


COMMANDS_BY_TASK: Final[dict[str, tuple[ListedCommand, ...]]] = {
    "Record and import": (
        ListedCommand("collect", None, "Run a workload or a program on a GPU and record it."),
        _list_command(
            "import",
            "app.cli.import_:import_command",
            "Import files from other tools.",
        ),
        ListedCommand("bench", None, "Time launch costs, or record workloads for predict."),
    ),
    "Look": (
        _list_command("demo", "app.cli.demo:demo", "Serve the dashboard on the included samples."),
        _list_command(
            "serve", "app.cli.serve:serve", "Serve the dashboard on folders of experiments."
        ),
        _list_command("ls", "app.cli.ls:ls", "List the experiments and runs under a folder."),
        _list_command(
            "compare",
            "app.compare.command:compare_command",
            "Compare the runs of an experiment: is it worth it?",
        ),
        _list_command(
            "show",
            "app.compare.show_command:show",
            "Show one run: its metrics, graphs and slowest nodes.",
        ),
    ),
    "Ask": (
        _list_command(
            "predict",
            "features.prediction.command:predict_command",
            "Predict from an eager trace what a graph would gain.",
        ),
        _list_command(
            "doctor",
            "features.doctor.command:doctor",
            "Find why a capture fails, or a replay is wrong.",
        ),
        _list_command(
            "compile",
            "features.torch_compile.command:compile_command",
            "Explain graph breaks and graphs of torch.compile.",
        ),
        _list_command(
            "diff",
            "features.graph.diff_command:diff_command",
            "Compare two captured graphs, node by node.",
        ),
        _list_command(
            "efficiency",
            "features.efficiency.command:show_efficiency",
            "Show how far nodes are from the hardware limit.",
        ),
        _list_command(
            "memory",
            "features.memory.command:memory_command",
            "Show what CUDA graphs cost in memory.",
        ),
        _list_command(
            "ladder",
            "features.ladder.command:ladder_command",
            "Find the sizes of graphs worth capturing.",
        ),
        _list_command(
            "launch", "features.launch.command:launch_command", "Show what launching graphs costs."
        ),
        _list_command(
            "fleet",
            "features.ranks.fleet_command:fleet_command",
            "Find the slow ranks in the traces of a job.",
        ),
    ),
    "Share and check": (
        _list_command(
            "export", "app.cli.export:export", "Write traces, graphs, tables and reports as files."
        ),
        _list_command(
            "gate",
            "features.gate.command:gate_command",
            "Fail a build when an experiment got worse.",
        ),
        _list_command(
            "validate",
            "app.cli.validate:validate",
            "Check that run bundles are whole and readable.",
        ),
    ),
    "Set up": (
        _list_command("docs", "app.cli.docs:docs_command", "Find a section of the documentation."),
        _list_command(
            "cache",
            "app.cli.cache:cache_command",
            "Show or clear the cache of parsed traces.",
        ),
        _list_command(
            "completion", "app.cli.completion:completion", "Print the completion script of a shell."
        ),
        _list_command(
            "calibrate",
            "features.prediction.calibrate_command:calibrate_command",
            "Make a calibration for predict from recordings.",
        ),
    ),
}
"""By what a user is about to do."""

COMMANDS_BY_NAME: Final = {row.name: row for rows in COMMANDS_BY_TASK.values() for row in rows}
