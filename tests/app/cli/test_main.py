from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest

from graphviz_dash import __version__
from graphviz_dash.app.cli import main as main_module
from graphviz_dash.app.cli.main import cli, main
from graphviz_dash.errors import InputError, MissingRequirementError
from tests.cli.fixtures import Invoke


def program(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "graphviz_dash.app.cli.main", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=300,
    )


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Makes ``graphviz-dash ls`` raise."""

    @click.command("ls")
    def raising() -> None:
        raise error

    monkeypatch.setattr(cli, "get_command", lambda *_: raising)


class TestExitCodes:
    @pytest.mark.parametrize(
        ("error", "code", "text"),
        [
            (InputError("a.json", "nothing", "a trace"), 2, "a.json: nothing; expected a trace"),
            (MissingRequirementError("no torch"), 1, "no torch"),
            (PermissionError(13, "Permission denied", "x\x1b"), 1, r"x\x1b: Permission denied"),
            (KeyboardInterrupt(), 130, "interrupted"),
        ],
    )
    def test_an_error_is_one_line(
        self,
        monkeypatch: pytest.MonkeyPatch,
        invoke: Invoke,
        error: BaseException,
        code: int,
        text: str,
    ) -> None:
        failing(monkeypatch, error)
        result = invoke("ls")
        assert (result.code, result.out) == (code, "")
        assert result.err.strip() == f"Error: {text}"

    def test_a_mistake_in_our_code_is_not_hidden(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failing(monkeypatch, ZeroDivisionError())
        with pytest.raises(ZeroDivisionError):
            main(["ls"])

    @pytest.mark.parametrize(
        "arguments",
        [
            ("nonsense",),
            ("compare",),
            ("compare", "nowhere"),
            ("show", "nowhere"),
            ("validate", "nowhere"),
            ("ls", "nowhere"),
            ("compare", ".", "--kernels", "-1"),
            ("serve", "--port", "0"),
            ("serve", "nowhere"),
            ("compare", "sample_traces/mlp-train", "--baseline", "x"),
            ("show", "sample_traces"),
            ("ls", "sample_traces/mlp-train/graph"),
            ("compare", "sample_traces/mlp-train/eager/clean.json"),
        ],
    )
    @pytest.mark.usefixtures("folder")
    def test_invalid_arguments_are_one_error(
        self, invoke: Invoke, arguments: tuple[str, ...]
    ) -> None:
        result = invoke(*arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.splitlines()[-1].startswith("Error: ")
        assert "Traceback" not in result.err

    def test_help_and_version(self, invoke: Invoke) -> None:
        assert invoke("--version").out == f"graphviz-dash, version {__version__}\n"
        result = invoke("--help")
        assert result.code == 0
        for name in ("ls", "show", "compare", "validate", "export", "serve", "collect"):
            assert f"\n  {name} " in result.out

    def test_nothing_after_the_name(self, invoke: Invoke) -> None:
        assert "Usage: graphviz-dash" in "".join((invoke().out, invoke().err))


class TestBroughtCommands:
    def test_one_that_cannot_be_loaded_says_why(
        self, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
    ) -> None:
        point = EntryPoint("collect", "no_such_package:collect", "graphviz_dash.commands")
        monkeypatch.setattr(main_module, "_load_entry_points", lambda: (point,))
        result = invoke("collect", "--workload", "x", "-o", "y", "--help")
        assert result.code == 1
        assert result.err == (
            "Error: The command collect cannot be loaded here: No module named 'no_such_package'\n"
        )
        assert "(cannot be loaded here)" in invoke("--help").out

    def test_collect_without_torch_is_one_line(self, invoke: Invoke) -> None:
        pytest.importorskip("collectors.collection.cli")
        try:
            import torch  # noqa: F401
        except ImportError:
            result = invoke("collect", "--workload", "mlp-train", "-o", "never-written")
            assert (result.code, result.out) == (1, "")
            assert len(result.err.splitlines()) == 1
            assert "torch" in result.err


class TestHelp:
    def test_it_fits_80_columns_and_names_every_command(self, invoke: Invoke) -> None:
        text = invoke("--help").out
        assert max(map(len, text.splitlines())) <= 80
        for name in main_module.COMMANDS_BY_NAME:
            assert f"\n  {name} " in text

    def test_the_help_of_each_command_fits_80_columns(self, invoke: Invoke) -> None:
        for name in main_module.COMMANDS_BY_NAME:
            text = invoke(name, "--help").out
            assert max(map(len, text.splitlines())) <= 80, name

    @pytest.mark.parametrize("group", ["export", "bench"])
    def test_commands_of_a_group_are_told_in_whole_sentences(
        self, invoke: Invoke, group: str
    ) -> None:
        told = invoke(group, "--help").out.partition("Commands:")[2].split("\n")
        assert [line for line in told if line.endswith("...")] == []

    def test_every_row_of_the_table_leads_to_its_command(self) -> None:
        context = click.Context(cli)
        for name in main_module.COMMANDS_BY_NAME:
            command = cli.get_command(context, name)
            assert command is not None
            assert command.name == name

    def test_an_unlisted_command_of_another_package_has_its_own_help(
        self, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
    ) -> None:
        point = EntryPoint("render", "click:command", "graphviz_dash.commands")
        monkeypatch.setattr(main_module, "_load_entry_points", lambda: (point,))
        stand_in = click.Command("render", help="Render it.")
        monkeypatch.setattr(main_module, "_load_command", lambda _: stand_in)
        assert "  render  Render it." in invoke("--help").out

    def test_help_and_completion_import_no_command(self, folder: Path) -> None:
        code = (
            "import atexit, sys; from graphviz_dash.app.cli.main import main; "
            "atexit.register(lambda: print([name for name in sys.modules "
            "if '.commands.' in name or name == 'numpy'], file=sys.stderr)); main(sys.argv[1:])"
        )
        for arguments, environment in (
            (["--help"], {}),
            (
                [],
                {
                    "_GRAPHVIZ_DASH_COMPLETE": "bash_complete",
                    "COMP_WORDS": "graphviz-dash c",
                    "COMP_CWORD": "1",
                },
            ),
        ):
            done = subprocess.run(
                [sys.executable, "-c", code, *arguments],
                cwd=folder,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
            )
            assert "compare" in done.stdout
            assert done.stderr == "[]\n"


class TestLoading:
    def test_garbage_is_collected_rarely_while_a_command_runs(
        self, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
    ) -> None:
        command = click.Command("ls", callback=lambda: click.echo(gc.get_threshold()[0]))
        monkeypatch.setattr(cli, "get_command", lambda *_: command)
        before = gc.get_threshold()
        assert int(invoke("ls").out) >= 50_000
        assert gc.get_threshold() == before

    def test_a_listing_loads_no_engine(self, folder: Path) -> None:
        code = (
            "import json, sys; from graphviz_dash.app.cli.main import main; "
            "main(['ls', 'sample_traces', '--json']); "
            "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
        )
        loaded = {name.partition(".")[0] for name in json.loads(done.stderr)}
        assert loaded & {"torch", "streamlit", "plotly", "pandas", "perfetto", "pyarrow"} == set()

    def test_a_closed_pipe_is_no_error(self, folder: Path) -> None:
        done = subprocess.run(
            f"'{sys.executable}' -m graphviz_dash.app.cli.main compare"
            " sample_traces/mlp-train --json"
            " | head -c 10",
            shell=True,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert len(done.stdout) == 10
        assert done.stderr == ""


class TestUntrustedNames:
    NAME = "\x1b]0;evil\x07[red]\u202ename[/red]"
    END = "----"

    def test_no_escape_reaches_the_terminal(self, tmp_path: Path) -> None:
        from msgspec.structs import replace

        from tests.experiments import STEP, make_experiment

        work = tuple(replace(item, name=self.NAME) for item in STEP)
        make_experiment(tmp_path / self.NAME, work=work)
        commands = (
            ("ls", "."),
            ("validate", "."),
            ("compare", self.NAME, "--all"),
            ("compare", self.NAME, "--json"),
            ("compare", self.NAME, "--all", "--baseline", self.NAME),
            ("show", f"{self.NAME}/graph", "--all"),
            ("show", f"{self.NAME}/graph", "--json"),
            ("show", f"{self.NAME}/none"),
        )
        # In one process, which ends what it prints of each command with a line.
        code = (
            "import sys; from graphviz_dash.app.cli.main import main\n"
            f"for arguments in {commands!r}:\n    main(arguments); print({self.END!r}, flush=True)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "FORCE_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=300,
        )
        *printed_of, rest = done.stdout.split(f"{self.END}\n")
        assert rest == ""
        for arguments, printed in zip(commands, printed_of, strict=True):
            assert "Traceback" not in printed, arguments
            assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(printed), arguments
            assert "evil" in printed
            if "--json" not in arguments:
                assert "[red]" in printed, arguments

    def test_a_stream_without_unicode_gets_escapes(self, folder: Path) -> None:
        done = program("compare", "sample_traces/mlp-train", cwd=folder, PYTHONIOENCODING="cp437")
        assert (done.returncode, done.stderr) == (0, "")
        assert r"\u2013" in done.stdout
