"""Run the tests with the oldest and the newest allowed versions of all direct dependencies.

    python -m scripts.matrix [oldest|newest ...] [--jobs N] [--import-only]

Each has its own environment in .make. The oldest version is the lower bound in pyproject.toml; a
lower bound that is no release is an error. Tests in a browser are skipped. The exit code is 1 if an
installation, an import or a test fails.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
ENDS: Final = ("oldest", "newest")
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


def install(end: str, folder: Path) -> Path:
    """Make the environment in ``folder`` and return its interpreter."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "-q", "--upgrade", "--no-compile"]
    if end == "oldest":
        constraints = folder / "oldest.txt"
        constraints.write_text("\n".join(pin_oldest(list_dependencies())) + "\n")
        command += ["-c", str(constraints)]
    subprocess.run([*command, "-e", f"{ROOT}[dev]"], check=True)
    return python


def run(end: str, *, jobs: int, import_only: bool) -> bool:
    """Install one end and import every module, or run the tests; return True if all succeeded."""
    print(f"{end} versions", flush=True)
    try:
        python = install(end, ROOT / ".make" / f"matrix-{end}")
    except subprocess.CalledProcessError:
        return False
    names = [match[1] for match in map(_BOUND.match, list_dependencies()) if match]
    subprocess.run([str(python), "-c", _VERSIONS, *names], check=True)
    tests = f"-m pytest -q -n {jobs} --dist loadfile -m".split()
    tests.append("not ui and not gpu")
    command = ["-c", _IMPORTS] if import_only else tests
    done = subprocess.run([str(python), *command], cwd=ROOT, check=False)
    return done.returncode == 0


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
    for end, succeeded in results.items():
        print(f"{end}: {'succeeded' if succeeded else 'failed'}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
