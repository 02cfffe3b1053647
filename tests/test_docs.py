from __future__ import annotations

import ast
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import ClassVar

import click
import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from graphviz_dash.app.cli.main import cli
from scripts.reference.commands import list_commands

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[ ]*$", re.MULTILINE | re.DOTALL)


@cache
def tracked() -> tuple[Path, ...]:
    """The files that a clone has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    if listed.returncode != 0:
        pytest.skip("not a git clone, so there is no list of its files")
    names = listed.stdout.decode().split("\0")
    return tuple(path for name in names if name and (path := ROOT / name).is_file())


@cache
def text_of(path: Path) -> str | None:
    """The text of a file, or None if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def pages() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".md"]


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as the hosting site makes them."""
    found: dict[str, int] = {}
    slugs = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", path.read_text()), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        slugs.add(f"{slug}-{count}" if count else slug)
    return slugs


class TestPages:
    def test_links_lead_somewhere(self) -> None:
        broken = []
        for page in pages():
            text = FENCE.sub("", page.read_text(encoding="utf-8"))
            targets = re.findall(r"\[[^\]]*\]\(<?([^)\s>]+)[^)]*\)", text)
            targets += re.findall(r'(?:src|srcset|href)="([^"]+)"', text)
            for target in targets:
                if re.match(r"[a-z]+:", target):
                    continue
                place, _, anchor = target.partition("#")
                file = (page.parent / place).resolve() if place else page
                in_clone = file in tracked() or any(file in one.parents for one in tracked())
                if not in_clone or (anchor and anchor not in anchors(file)):
                    broken.append(f"{page.relative_to(ROOT)}: {target}")
        assert broken == []

    def test_pictures_say_what_they_show(self) -> None:
        bare = [
            f"{page.relative_to(ROOT)}: {target}"
            for page in pages()
            for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text())
            if len(text) < 10
        ]
        assert bare == []

    def test_every_decision_is_in_the_list(self) -> None:
        folder = ROOT / "docs" / "decisions"
        records = {path for path in tracked() if path.parent == folder} - {folder / "README.md"}
        table = (folder / "README.md").read_text()
        numbers = [path.name[:4] for path in records]
        assert len(set(numbers)) == len(numbers)
        # The number of a record that was merged into another is with that one.
        also = re.findall(r"^- \[\d{4}\].* \(also ([\d, ]+)\)$", table, re.M)
        merged = [number for listed in also for number in listed.split(", ")]
        assert sorted([*numbers, *merged]) == [
            f"{number + 1:04}" for number in range(len(numbers) + len(merged))
        ]
        for record in records:
            assert len(record.read_text().split()) <= 300, record.name
            assert f"]({record.name})" in table
            text = record.read_text()
            assert text.startswith(f"# {record.name[:4]}: ")
            for part in ("Status: ", "## Context", "## Decision", "## Consequences"):
                assert f"\n{part}" in text, record.name


def options(command: click.Command) -> set[str]:
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)}


def shell_lines(page: Path) -> list[str]:
    """The lines of a page's code blocks, continued ones joined."""
    blocks = [block.group(0) for block in FENCE.finditer(page.read_text(encoding="utf-8"))]
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line.strip().removeprefix("$ ") for line in joined.splitlines()]


class TestExamples:
    TARGETS = frozenset(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M))

    def test_there_are_examples(self) -> None:
        readme = shell_lines(ROOT / "README.md")
        assert "make run" in readme
        assert any(line.startswith("graphviz-dash collect") for line in readme)

    def test_the_workload_example_is_one(self) -> None:
        page = (ROOT / "docs" / "how-to" / "measure-a-step.md").read_text()
        example = re.findall(r"```python\n(.*?)```", page, re.S)[0]
        (factory,) = (node for node in ast.parse(example).body if isinstance(node, ast.FunctionDef))
        assert factory.args.args == []
        assert isinstance(factory.body[-1], ast.Return)
        assert len([line for line in example.splitlines() if line]) <= 10
        assert f"--workload my_model:{factory.name} " in page

    def test_make_targets_exist(self) -> None:
        unknown = []
        for page in pages():
            text = page.read_text(encoding="utf-8")
            lines = [*shell_lines(page), *re.findall(r"`(make [^`\n]+)`", text)]
            for line in lines:
                if line.startswith("make "):
                    words = shlex.split(line, comments=True)[1:]
                    targets = [word for word in words if "=" not in word]
                    unknown += [f"{page.name}: {t}" for t in targets if t not in self.TARGETS]
        assert unknown == []

    def test_commands_and_their_options_exist(self) -> None:
        unknown = []
        known = list_commands()
        for page in pages():
            text = FENCE.sub("", page.read_text(encoding="utf-8"))
            inline = re.findall(r"`(graphviz-dash [^`\n]+)`", text)
            for line in [*shell_lines(page), *inline]:
                if not line.startswith("graphviz-dash ") or line.split()[1].startswith("-"):
                    continue
                # What follows -- is somebody else's program.
                own = line.partition(" > ")[0].partition(" | ")[0].partition(" -- ")[0]
                words = shlex.split(own, comments=True)
                name = next((n for n in (" ".join(words[1:3]), words[1]) if n in known), None)
                group = [n for n in known if n.startswith(f"{words[1]} ")]
                if name is None:
                    if not (group and len(words) == 2):
                        unknown.append(f"{page.name}: {line}")
                    continue
                # Words after -- are another program's command line.
                own = words[: words.index("--")] if "--" in words else words
                used = {word.partition("=")[0] for word in own if re.match(r"--?[a-z]", word)}
                missing = used - options(known[name]) - {"-h", "--help"}
                unknown += [f"{page.name}: {line}: {option}" for option in missing]
        assert unknown == []

    def test_the_help_of_make_shows_every_target(self) -> None:
        phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
        assert phony
        assert set(phony.group(1).split()) - {"python-matches"} == self.TARGETS


def test_the_figures_of_the_readme_are_those_of_the_samples() -> None:
    rows = listed_samples()
    part = readme().partition("| experiment |")[2].partition("\n\n")[0]
    table = re.findall(r"^\| `(\w[\w-]+)` \| .+? \| (.+?) \| (.+?) \| (.+?) \|$", part, re.M)
    # Not every sample compares eager with one graph.
    assert table
    assert {name for name, *_ in table} <= {
        folder.name for folder in (ROOT / "sample_traces").iterdir() if folder.is_dir()
    }
    engines = ["recorded-vllm", "recorded-sglang"]
    assert [name for name, *_ in table][:2] == engines
    assert {"recorded-batching", "recorded-resnet", "recorded-megatron"} <= {n for n, *_ in table}
    runs = {
        "recorded-vllm": ("", "default-sizes"),
        "recorded-sglang": ("", "default-sizes"),
        "recorded-batching": ("", "interval-32"),
        "recorded-resnet": ("eager", "graphed"),
        "recorded-megatron": ("local", "full-iteration"),
        "tp-transformer": ("eager-rank1", "graph-rank1"),
    }
    for name, before, after, speedup in table:
        baseline, run = runs.get(name, ("eager", "graph"))
        if before != "\N{EN DASH}":
            assert f" {before} " in rows[name, baseline]
        assert f" {after} " in rows[name, run]
        assert f" {speedup} " in rows[name, run]
    for name in engines:
        told = re.search(rf"`{name}` \| .+?graphs ran (.+?) steps; eager steps took (\S+) of", part)
        compared = CliRunner().invoke(cli, ["compare", str(ROOT / "sample_traces" / name)]).output
        assert told
        assert all(figure in compared for figure in told.groups())


def test_the_figures_of_the_sample_in_gpt_training_are_those_of_the_sample() -> None:
    rows = listed_samples()
    report = ROOT / "evaluation" / "reports" / "2026-11-21-gpt-training.md"
    page = " ".join(report.read_text(encoding="utf-8").split())
    told = re.search(r"two layers of 256: (.+?) eager, (.+?) by layer, (.+?) as one", page)
    assert told
    for figure, run in zip(told.groups(), ("eager", "partial", "graph"), strict=True):
        assert f" {figure} " in rows["gpt-train", run]
    times = re.search(r"as one graph, (\S+) times as fast", page)
    assert times
    assert f" {times.group(1)}x " in rows["gpt-train", "graph"]


def listed_samples() -> dict[tuple[str, ...], str]:
    """The lines of ``ls`` by experiment and run."""
    listed = CliRunner().invoke(cli, ["ls", str(ROOT / "sample_traces")], terminal_width=200).output
    return {tuple(Path(line.split()[0]).parts[-2:]): line for line in listed.splitlines() if line}


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


class TestPins:
    PINNED: ClassVar = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )

    def test_a_pin_is_a_name_and_a_version(self) -> None:
        for line in (ROOT / "constraints.txt").read_text().splitlines():
            assert re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line), line

    def test_every_dependency_is_pinned_within_its_range(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        wanted = [
            *project["project"]["dependencies"],
            *project["project"]["optional-dependencies"]["dev"],
            *project["project"]["optional-dependencies"]["perfetto-ui"],
            *project["build-system"]["requires"],
        ]
        pinned = {canonicalize_name(name): version for name, version in self.PINNED.items()}
        for requirement in map(Requirement, wanted):
            if requirement.name == "graphviz-dash":
                continue
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement} is not in constraints.txt"
            assert requirement.specifier.contains(version), f"{requirement}: {version} pinned"

    def test_every_pin_installs_on_the_oldest_python(self) -> None:
        """Packages of another version than the pin are not examined."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        oldest = project["project"]["requires-python"].removeprefix(">=") + ".0"
        examined, failing = 0, {}
        for package in distributions():
            if self.PINNED.get(package.name) == package.version:
                examined += 1
                # Not by key: importlib_metadata, which other tests import, raises without one.
                [required] = package.metadata.get_all("Requires-Python") or [""]
                if not SpecifierSet(required).contains(oldest):
                    failing[package.name] = required
        assert examined
        assert failing == {}

    def test_neither_torch_nor_cuda_is_installed_by_the_two_commands(self) -> None:
        heavy = {name for name in self.PINNED if re.match(r"torch|cuda|nvidia|triton", name, re.I)}
        assert heavy == set()

    def test_no_lock_file_names_an_address(self) -> None:
        locks = [path for path in tracked() if re.search(r"\block\b", path.name)]
        assert [path for path in locks if "://" in (text_of(path) or "")] == []


class TestNothingOfOneMachine:
    """Names and folders of one machine are of no use to another."""

    FOLDERS = re.compile(r"(?<![\w.])/(?:home|Users|root|work|workspace|mnt)/[\w.-]+")

    def test_no_path_of_somebodys_machine(self) -> None:
        found = [
            f"{path.relative_to(ROOT)}: {match.group(0)}"
            for path in tracked()
            for match in self.FOLDERS.finditer(text_of(path) or "")
        ]
        assert found == []

    def test_ci_runs_what_a_person_runs(self) -> None:
        script = (ROOT / ".ci" / "run").read_text()
        assert script.startswith("#!/usr/bin/env bash\n")
        assert "set -euo pipefail" in script
        assert "make test" in script
        assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def list_shown_outputs() -> Iterator[tuple[str, str, list[str]]]:
    """Page, last command and shown lines of each text block that follows a console block."""
    pattern = re.compile(
        r"^```console\n((?:.+\n)+?)```\n(?:(?!```|#).*\n){0,4}```text\n((?:.+\n)+?)```", re.M
    )
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for commands, shown in pattern.findall(page.read_text(encoding="utf-8")):
            # An ellipsis replaces the rest of a line or for lines.
            parts = [" ".join(part.split()) for part in re.split(r"\s*\.\.\.\n", shown)]
            yield page.name, commands.splitlines()[-1], [part for part in parts if part]


def test_there_are_shown_outputs() -> None:
    assert len(list(list_shown_outputs())) >= 5


@pytest.mark.parametrize(
    ("command", "shown"),
    [pytest.param(command, shown, id=page) for page, command, shown in list_shown_outputs()],
)
def test_shown_output_is_that_of_the_command(
    command: str, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(command.removeprefix("$ "))
    output = " ".join(CliRunner().invoke(cli, words[1:]).output.split())
    for part in shown:
        assert part in output
