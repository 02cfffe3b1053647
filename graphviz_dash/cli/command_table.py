"""Commands by task, each with its short help and the module that defines it.

Help and shell completion use only this table. A command's module is imported only to run it or to
print its own help.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_COMMANDS: Final = "graphviz_dash.cli.commands"


class ListedCommand(NamedTuple):
    """Row of the command table."""

    name: str
    """Command name after ``graphviz-dash``."""
    target: str | None
    """Module and attribute of the click command; None if an entry point provides it."""
    short_help: str
    """Summary in at most 60 characters."""


def _ours(name: str, short_help: str, attribute: str, module: str = "") -> ListedCommand:
    return ListedCommand(name, f"{_COMMANDS}.{module or name}:{attribute}", short_help)


TASKS: Final[dict[str, tuple[ListedCommand, ...]]] = {
    "Record and import": (
        ListedCommand("collect", None, "Run a workload or a program on a GPU and record it."),
        _ours("import", "Import files from other tools.", "import_command", "import_"),
        ListedCommand("bench", None, "Time launch costs, or record workloads for predict."),
    ),
    "View": (
        _ours("demo", "Serve the dashboard on the included samples.", "demo"),
        _ours("serve", "Serve the dashboard on folders of experiments.", "serve"),
        _ours("ls", "List the experiments and runs under a folder.", "ls"),
        _ours("compare", "Compare the runs of an experiment.", "compare_command"),
        _ours("show", "Show one run: its metrics, graphs and slowest nodes.", "show"),
    ),
    "Diagnose": (
        _ours(
            "predict", "Predict the gain from CUDA graphs from an eager trace.", "predict_command"
        ),
        _ours("doctor", "Find why a capture fails or a replay is wrong.", "doctor"),
        _ours("compile", "Explain how torch.compile handled a run.", "compile_command"),
        _ours("diff", "Compare two captured graphs, node by node.", "diff_command"),
        _ours("memory", "Show the memory cost of CUDA graphs.", "memory_command"),
        _ours("ladder", "Recommend capture sizes.", "ladder_command"),
        _ours("launch", "Show the launch cost of graphs.", "launch_command"),
        _ours("fleet", "Find slow ranks in the traces of many ranks.", "fleet_command"),
    ),
    "Share and check": (
        _ours("export", "Write traces, graphs, tables and reports as files.", "export"),
        _ours("gate", "Fail a build on a significant regression.", "gate_command"),
        _ours("validate", "Check that run bundles are complete and readable.", "validate"),
    ),
    "Set up": (
        _ours("cache", "Show or clear the cache of parsed traces.", "cache_command"),
        _ours("completion", "Print the completion script of a shell.", "completion"),
        _ours("calibrate", "Build a calibration for predict from recordings.", "calibrate_command"),
    ),
}
"""Built-in commands by task."""

LISTED: Final = {row.name: row for rows in TASKS.values() for row in rows}
"""Built-in commands by name."""
