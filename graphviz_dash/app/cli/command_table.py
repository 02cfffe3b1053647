"""The commands by task, each with its short help and the module that it is loaded from.

Help and shell completion read this table alone, so that a command's module is imported only to run
it or to print its own help.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class ListedCommand(NamedTuple):
    """A row of the table."""

    name: str
    """What is typed after ``graphviz-dash``."""
    target: str | None
    """Module and attribute of the click command; None for one that an entry point brings."""
    short_help: str
    """What it does, in at most 60 characters."""


def _ours(name: str, target: str, short_help: str) -> ListedCommand:
    return ListedCommand(name, f"graphviz_dash.{target}", short_help)


TASKS: Final[dict[str, tuple[ListedCommand, ...]]] = {
    "Record and import": (
        ListedCommand("collect", None, "Run a workload or a program on a GPU and record it."),
        _ours(
            "import",
            "app.cli.import_:import_command",
            "Make runs of files that other programs wrote.",
        ),
        ListedCommand("bench", None, "Time launch costs, or record workloads for predict."),
    ),
    "Look": (
        _ours("demo", "app.cli.demo:demo", "Serve the dashboard on the samples that come along."),
        _ours("serve", "app.cli.serve:serve", "Serve the dashboard on folders of experiments."),
        _ours("ls", "app.cli.ls:ls", "List the experiments and runs under a folder."),
        _ours(
            "compare",
            "app.compare.command:compare_command",
            "Compare the runs of an experiment: is it worth it?",
        ),
        _ours(
            "show",
            "app.compare.show_command:show",
            "Show one run: its metrics, graphs and slowest nodes.",
        ),
    ),
    "Ask": (
        _ours(
            "predict",
            "features.prediction.command:predict_command",
            "Predict from an eager trace what a graph would gain.",
        ),
        _ours(
            "doctor",
            "features.doctor.command:doctor",
            "Find why a capture fails, or a replay is wrong.",
        ),
        _ours(
            "compile",
            "features.torch_compile.command:compile_command",
            "Explain what torch.compile made of a run.",
        ),
        _ours(
            "diff",
            "features.graph.diff_command:diff_command",
            "Compare two captured graphs, node by node.",
        ),
        _ours(
            "memory",
            "features.memory.command:memory_command",
            "Show what CUDA graphs cost in memory.",
        ),
        _ours(
            "ladder",
            "features.ladder.command:ladder_command",
            "Find the sizes of graphs worth capturing.",
        ),
        _ours(
            "launch", "features.launch.command:launch_command", "Show what launching graphs costs."
        ),
        _ours(
            "fleet",
            "features.ranks.fleet_command:fleet_command",
            "Ask the traces of many ranks which are slow.",
        ),
    ),
    "Share and check": (
        _ours(
            "export", "app.cli.export:export", "Write traces, graphs, tables and reports as files."
        ),
        _ours(
            "gate",
            "features.gate.command:gate_command",
            "Fail a build when an experiment got worse.",
        ),
        _ours(
            "validate",
            "app.cli.validate:validate",
            "Check that run bundles are whole and readable.",
        ),
    ),
    "Set up": (
        _ours("docs", "app.cli.docs:docs", "Find a section of the documentation."),
        _ours(
            "cache",
            "app.cli.cache:cache_command",
            "Show or clear the traces that are kept to open fast.",
        ),
        _ours(
            "completion", "app.cli.completion:completion", "Print the completion script of a shell."
        ),
        _ours(
            "calibrate",
            "features.prediction.calibrate_command:calibrate_command",
            "Make a calibration for predict from recordings.",
        ),
    ),
}
"""The commands that come along, by what a user is about to do."""

LISTED: Final = {row.name: row for rows in TASKS.values() for row in rows}
"""The same by name."""
