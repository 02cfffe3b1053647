from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from graphviz_dash.bundle.schema import SUPPORTED_VERSIONS
from scripts.sbom import build_bom, list_dependencies
from tests.test_docs import TestExamples

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_workflow_runs_targets_that_exist() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert any(command.endswith(" test") for command in commands)
    targets = {word for command in commands for word in command.split()[1:] if "=" not in word}
    assert targets <= TestExamples.TARGETS


@pytest.mark.parametrize("name", ["bug_report.yml", "feature_request.yml"])
def test_an_issue_asks_for_the_report(name: str) -> None:
    template = read(TEMPLATES / name)
    labels = [field["attributes"].get("label") for field in template["body"]]
    assert "Output of graphviz-dash doctor --report" in labels
    assert "--redact" in (TEMPLATES / name).read_text(encoding="utf-8")


def test_hooks_download_nothing() -> None:
    repositories = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    for hook in repositories[0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")


def test_the_citation_names_the_last_release() -> None:
    citation = read(ROOT / "CITATION.cff")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, day = re.findall(r"^## \[(.+?)\] - (\d{4}-\d\d-\d\d)", changes, re.M)[0]
    assert (citation["version"], citation["date-released"]) == (version, day)
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"]


def test_the_security_policy_has_the_versions() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    newest = policy.partition("| --- | --- | --- | --- |\n")[2].splitlines()[0]
    assert f"| {SUPPORTED_VERSIONS[0]} to {SUPPORTED_VERSIONS[-1]} |" in newest
    assert (ROOT / "CODE_OF_CONDUCT.md").is_file()


def test_the_list_of_packages_has_runtime_dependencies_alone() -> None:
    names = {package.metadata["Name"].lower() for package in list_dependencies("graphviz-dash")}
    assert {"streamlit", "polars", "msgspec", "starlette"} <= names
    assert not {"pytest", "mypy", "mkdocs"} & names
    document = json.loads(build_bom())
    assert document["bomFormat"] == "CycloneDX"
    assert all(package["purl"].startswith("pkg:pypi/") for package in document["components"])
