"""The commands by task, each with its short help and the module that it is loaded from.

Help and shell completion read this table alone, so that a command's module is imported only to run
it or to print its own help.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_COMMANDS: Final = "graphviz_dash.cli.commands"


class ListedCommand(NamedTuple):
    """A row of the table."""

    name: str
    """What is typed after ``graphviz-dash``."""
    target: str | None
    """Module and attribute of the click command; None for one that an entry point brings."""
    short_help: str
    """What it does, in at most 60 characters."""


def _ours(name: str, short_help: str, attribute: str, module: str = "") -> ListedCommand:
    return ListedCommand(name, f"{_COMMANDS}.{module or name}:{attribute}", short_help)


TASKS: Final[dict[str, tuple[ListedCommand, ...]]] = {
    "Record and import": (
        ListedCommand("collect", None, "Run a workload or a program on a GPU and record it."),
        _ours(
            "import", "Make runs of files that other programs wrote.", "import_command", "import_"
        ),
        ListedCommand("bench", None, "Time launch costs, or record workloads for predict."),
    ),
    "Look": (
        _ours("demo", "Serve the dashboard on the samples that come along.", "demo"),
        _ours("serve", "Serve the dashboard on folders of experiments.", "serve"),
        _ours("ls", "List the experiments and runs under a folder.", "ls"),
        _ours("compare", "Compare the runs of an experiment: is it worth it?", "compare_command"),
        _ours("show", "Show one run: its metrics, graphs and slowest nodes.", "show"),
    ),
    "Ask": (
        _ours("predict", "Predict from an eager trace what a graph would gain.", "predict_command"),
        _ours("doctor", "Find why a capture fails, or a replay is wrong.", "doctor"),
        _ours("compile", "Explain what torch.compile made of a run.", "compile_command"),
        _ours("diff", "Compare two captured graphs, node by node.", "diff_command"),
        _ours("memory", "Show what CUDA graphs cost in memory.", "memory_command"),
        _ours("ladder", "Find the sizes of graphs worth capturing.", "ladder_command"),
        _ours("launch", "Show what launching graphs costs.", "launch_command"),
        _ours("fleet", "Ask the traces of many ranks which are slow.", "fleet_command"),
    ),
    "Share and check": (
        _ours("export", "Write traces, graphs, tables and reports as files.", "export"),
        _ours("gate", "Fail a build when an experiment got worse.", "gate_command"),
        _ours("validate", "Check that run bundles are whole and readable.", "validate"),
    ),
    "Set up": (
        _ours("cache", "Show or clear the traces that are kept to open fast.", "cache_command"),
        _ours("completion", "Print the completion script of a shell.", "completion"),
        _ours("calibrate", "Make a calibration for predict from recordings.", "calibrate_command"),
    ),
}
"""The commands that come along, by what a user is about to do."""

LISTED: Final = {row.name: row for rows in TASKS.values() for row in rows}
"""The same by name."""
