"""Check pinned dependencies for published vulnerabilities, like ``make audit``.

Exits with 1 if there is any, and with 3 if nothing was audited, for example because the advisory
service is unreachable. With ``--optional``, as in ``make check``, the latter is reported but
succeeds: a build without network must not fail, but must not look audited.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PINS = Path(__file__).parents[1] / "constraints.txt"
TIMEOUT_S = 180
NO_RESULT = 3


def main(arguments: Sequence[str] = ()) -> int:
    """Audit constraints.txt and return the exit code."""
    code = _run_audit()
    return 0 if code == NO_RESULT and "--optional" in arguments else code


def _run_audit() -> int:
    command = [
        *(sys.executable, "-m", "pip_audit", "--requirement", str(PINS)),
        *("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"),
    ]
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env=build_environment(),
        )
    except subprocess.TimeoutExpired:
        return _report_not_audited(f"no response within {TIMEOUT_S} s")
    try:
        dependencies = json.loads(result.stdout)["dependencies"]
    except (ValueError, KeyError):
        if "'-m', 'pip', '--version'" in result.stderr:
            return _report_not_audited(f"no pip; install it: {sys.executable} -m ensurepip")
        lines = result.stderr.strip().splitlines()
        return _report_not_audited(lines[-1][:200] if lines else f"exit code {result.returncode}")
    return report(dependencies)


def build_environment() -> dict[str, str]:
    """Build the environment of pip-audit, which asks pip for its version even if it is unused.

    Environments of uv contain no pip. The Python from which this one was made usually has it.
    """
    if importlib.util.find_spec("pip") is not None:
        return dict(os.environ)
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    return {"PIPAPI_PYTHON_LOCATION": str(base), **os.environ}


def report(dependencies: list[dict[str, Any]]) -> int:
    """Print the audited ``dependencies``, pip-audit's entries; return 1 if any is vulnerable."""
    audited = [package for package in dependencies if "skip_reason" not in package]
    if not audited:
        return _report_not_audited("the service knows none of the packages")
    vulnerable = [(package, flaw) for package in audited for flaw in package.get("vulns", ())]
    for package, flaw in vulnerable:
        fixed_versions = ", ".join(flaw.get("fix_versions", ())) or "none yet"
        print(f"{package['name']} {package['version']}: {flaw['id']}; fixed in: {fixed_versions}")
    unaudited = len(dependencies) - len(audited)
    print(
        f"{len(audited)} pinned packages audited, {len(vulnerable)} vulnerabilities"
        + (f"; {unaudited} packages could not be audited" if unaudited else "")
    )
    return 1 if vulnerable else 0


def _report_not_audited(reason: str) -> int:
    frame = "*" * 72
    print(f"{frame}\nDependencies were NOT audited: {reason}\n{frame}", file=sys.stderr)
    return NO_RESULT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
