"""Asks whether any pinned dependency has a published vulnerability, as ``make audit`` does.

Prints each with its id and the version that mends it, and exits with 1 if there is one. Where the
service of advisories cannot be reached, or knows none of the packages, that is said and is no
failure: a build without a network must not break, and must not look audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PINS = Path(__file__).parents[1] / "constraints.txt"
SECONDS = 180


def main() -> int:
    """Runs pip-audit over constraints.txt and tells what it found."""
    command = [
        *(sys.executable, "-m", "pip_audit", "--requirement", str(PINS)),
        *("--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"),
    ]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _not_audited(f"no answer within {SECONDS} s")
    try:
        dependencies = json.loads(ran.stdout)["dependencies"]
    except (ValueError, KeyError):
        lines = ran.stderr.strip().splitlines()
        return _not_audited(lines[-1][:200] if lines else f"exit code {ran.returncode}")
    return report(dependencies)


def report(dependencies: list[dict[str, Any]]) -> int:
    """Prints what is known of ``dependencies``, pip-audit's own entries; 1 if any is vulnerable."""
    audited = [package for package in dependencies if "skip_reason" not in package]
    if not audited:
        return _not_audited("the service knows none of the packages")
    vulnerable = [(package, flaw) for package in audited for flaw in package.get("vulns", ())]
    for package, flaw in vulnerable:
        mended = ", ".join(flaw.get("fix_versions", ())) or "none yet"
        print(f"{package['name']} {package['version']}: {flaw['id']}; mended in: {mended}")
    left = len(dependencies) - len(audited)
    print(
        f"{len(audited)} pinned packages audited, {len(vulnerable)} vulnerabilities"
        + (f"; {left} packages could not be audited" if left else "")
    )
    return 1 if vulnerable else 0


def _not_audited(reason: str) -> int:
    print(f"Dependencies were NOT audited: {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
