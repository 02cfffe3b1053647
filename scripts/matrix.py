"""Run the tests with the oldest and the newest allowed versions of all direct dependencies.

    python -m scripts.matrix [oldest|newest ...] [--jobs N] [--import-only]

Each has a separate folder in .make with its environment and caches. Temporary files are outside of
the checkout, as in other runs. The oldest version is the lower bound in pyproject.toml; a lower
bound that is no release is an error. Tests in a browser are skipped. The exit code is 1 if an
installation, an import or a test fails.

The tests run in parts. A later call keeps an environment of the same day and skips the parts that
passed on the same files.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
ENDS: Final = ("oldest", "newest")
_MAX_AGE_S: Final = 86_400
"""An older environment is made again: newer versions may exist."""
_LARGE_FOLDER: Final = 20
"""Test files from which a folder is a separate part."""
_NO_TESTS: Final = 5
"""Exit code of pytest if all tests were deselected."""
_BOUND: Final = re.compile(r"([\w.-]+)(?:\[[^\]]*\])?>=([\d.]+)([^;]*)(;.*)?")
_IMPORTS: Final = (
    "import importlib, pkgutil, graphviz_dash\n"
    "for module in pkgutil.walk_packages(graphviz_dash.__path__, 'graphviz_dash.'):\n"
    "    name = module.name\n"
    "    if not name.endswith(('__main__', 'app.script')):\n"
    "        importlib.import_module(name)\n"
)
_VERSIONS: Final = (
    "import sys; from importlib.metadata import distributions\n"
    "found = {d.name: d.version for d in distributions() if d.name in sys.argv}\n"
    "print(*(f'{name} {found[name]}' for name in sorted(found)), sep=', ', flush=True)\n"
)


def list_dependencies(project: Path = ROOT / "pyproject.toml") -> list[str]:
    """Return the direct dependencies as they are in pyproject.toml."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))
    dependencies: list[str] = table["project"]["dependencies"]
    return dependencies


def pin_oldest(dependencies: Iterable[str]) -> list[str]:
    """Return a constraint to the lower bound of each dependency.

    Raises:
        ValueError: A dependency without a lower bound.
    """
    pins = []
    for dependency in dependencies:
        match = _BOUND.fullmatch(dependency.replace(" ", ""))
        if match is None:
            raise ValueError(f"{dependency} has no lower bound")
        name, bound, _, marker = match.groups()
        pins.append(f"{name}=={bound}{marker or ''}")
    return pins


def list_parts(folder: Path = ROOT / "tests") -> list[list[str]]:
    """Return the parts of the tests, each as paths for pytest. Large folders are separate parts."""
    counts = {path: _count_tests(path) for path in sorted(folder.iterdir())}
    large = [path for path, count in counts.items() if count >= _LARGE_FOLDER]
    others = [path for path, count in counts.items() if 0 < count < _LARGE_FOLDER]
    parts = [*([path] for path in large), [*others, ROOT / "evaluation", ROOT / "benchmarks"]]
    return [[str(path.relative_to(ROOT)) for path in part] for part in parts]


def _count_tests(path: Path) -> int:
    if path.is_dir():
        return sum(1 for _ in path.rglob("test_*.py"))
    return int(path.match("test_*.py"))


def install(end: str, folder: Path) -> Path:
    """Make the environment in ``folder``, unless a complete recent one exists, and return its
    interpreter."""
    python = folder / "bin" / "python"
    project = f"{sys.version}\n{(ROOT / 'pyproject.toml').read_text(encoding='utf-8')}"
    complete = folder / "complete.txt"
    if _is_recent(complete) and complete.read_text(encoding="utf-8") == project:
        return python
    venv.create(folder, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "-q", "--upgrade", "--no-compile"]
    if end == "oldest":
        constraints = folder / "oldest.txt"
        constraints.write_text("\n".join(pin_oldest(list_dependencies())) + "\n")
        command += ["-c", str(constraints)]
    subprocess.run([*command, "-e", f"{ROOT}[dev]"], check=True)
    complete.write_text(project, encoding="utf-8")
    return python


def _is_recent(path: Path) -> bool:
    return path.exists() and time.time() - path.stat().st_mtime < _MAX_AGE_S


def identify_files() -> str:
    """Return an id of the tracked files, with the changes that are not committed."""
    snapshot = _run_git("stash", "create")
    return _run_git("rev-parse", f"{snapshot or 'HEAD'}^{{tree}}")


def _run_git(*arguments: str) -> str:
    result = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return result.stdout.strip()


class PassedParts:
    """Parts that passed on the current files, kept in ``path``."""

    def __init__(self, path: Path, files: str) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines[:1] != [files]:
            lines = [files]
            path.write_text(f"{files}\n", encoding="utf-8")
        self._lines = lines

    def __contains__(self, part: list[str]) -> bool:
        return " ".join(part) in self._lines[1:]

    def add(self, part: list[str]) -> None:
        """Note a part that passed."""
        self._lines.append(" ".join(part))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{self._lines[-1]}\n")


def run_tests(python: Path, folder: Path, jobs: int) -> bool:
    """Run each part that has not passed on these files; return True if all have passed."""
    with tempfile.TemporaryDirectory(prefix="matrix-") as temporary:
        return _run_parts(python, folder, jobs, Path(temporary) / "tests")


def _run_parts(python: Path, folder: Path, jobs: int, temporary: Path) -> bool:
    record = PassedParts(folder / "passed.txt", identify_files())
    failures = []
    for part in list_parts():
        if part in record:
            print(f"passed before: {' '.join(part)}", flush=True)
            continue
        command = [str(python), "-m", "pytest", "-q", "-n", str(jobs), "--dist", "loadfile"]
        command += ["-m", "not ui and not gpu", "--basetemp", str(temporary)]
        command += ["-o", f"cache_dir={folder / 'cache'}", *part]
        if subprocess.run(command, cwd=ROOT, check=False).returncode in (0, _NO_TESTS):
            record.add(part)
        else:
            failures.append(part)
    for part in failures:
        print(f"failed: {' '.join(part)}", flush=True)
    return not failures


def run(end: str, *, jobs: int, import_only: bool) -> bool:
    """Install one end and import every module, or run the tests; return True if all succeeded."""
    print(f"{end} versions", flush=True)
    folder = ROOT / ".make" / f"matrix-{end}"
    try:
        python = install(end, folder)
    except subprocess.CalledProcessError:
        return False
    names = [match[1] for match in map(_BOUND.match, list_dependencies()) if match]
    subprocess.run([str(python), "-c", _VERSIONS, *names], check=True)
    if import_only:
        return subprocess.run([str(python), "-c", _IMPORTS], cwd=ROOT, check=False).returncode == 0
    return run_tests(python, folder, jobs)


def main() -> int:
    """Run the chosen ends and print their results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ends", nargs="*", metavar="END", help="oldest or newest (default: both)")
    parser.add_argument("--import-only", action="store_true", help="import all modules, no tests")
    parser.add_argument("--jobs", type=int, default=3, help="test processes (default: 3)")
    options = parser.parse_args()
    if unknown := set(options.ends) - set(ENDS):
        parser.error(f"{', '.join(sorted(unknown))} is none of {', '.join(ENDS)}")
    results = {
        end: run(end, jobs=options.jobs, import_only=options.import_only)
        for end in options.ends or ENDS
    }
    for end, is_success in results.items():
        print(f"{end}: {'succeeded' if is_success else 'failed'}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
