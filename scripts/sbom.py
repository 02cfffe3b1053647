"""Write a CycloneDX list of the packages that an installation has: ``make sbom``.

``python -m scripts.sbom FILE`` lists the runtime dependencies in this environment, which has the
versions of constraints.txt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT: Final = "graphviz-dash"


def main() -> None:
    """Write the list."""
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(build_bom(), encoding="utf-8")


def build_bom() -> str:
    """The list as JSON."""
    project = _build_component(distribution(PROJECT), ComponentType.APPLICATION)
    packages = [_build_component(package) for package in list_dependencies(PROJECT)]
    document = Bom(components=packages)
    document.metadata.component = project
    document.register_dependency(project, packages)
    return str(JsonV1Dot6(document).output_as_string(indent=2)) + "\n"


def list_dependencies(name: str) -> Iterator[Distribution]:
    """The installed packages that ``name`` needs at run time, directly or not."""
    names = {canonicalize_name(name)}
    waiting = [distribution(name)]
    while waiting:
        for text in waiting.pop().requires or ():
            requirement = Requirement(text)
            key = canonicalize_name(requirement.name)
            if key in names or not _is_applicable(requirement):
                continue
            names.add(key)
            try:
                package = distribution(requirement.name)
            except PackageNotFoundError:
                continue
            waiting.append(package)
            yield package


def _is_applicable(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _build_component(
    package: Distribution, kind: ComponentType = ComponentType.LIBRARY
) -> Component:
    name = canonicalize_name(package.metadata["Name"])
    address = PackageURL("pypi", name=name, version=package.version)
    return Component(
        type=kind, name=name, version=package.version, purl=address, bom_ref=str(address)
    )


if __name__ == "__main__":
    main()
