"""Build the documentation site from docs/ into graphviz_dash/site: ``make site``.

Pages that lie outside docs/ (changelog, contributing, security policy) are part of the site. Links
to other files of the repository become text, because the site is read without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import yaml

from graphviz_dash.documentation import SITE_FOLDER

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
STAGING_FOLDER: Final = ROOT / ".make" / "site"
_CONFIG: Final = STAGING_FOLDER.with_suffix(".yml")

SECTIONS: Final = {
    "tutorials": "Tutorials",
    "how-to": "How-to guides",
    "explanation": "Explanation",
    "reference": "Reference",
}
"""Titles of the parts by their folders, in the order of the navigation."""

PROJECT: Final = {
    "README.md": "project/about.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
}
"""Pages outside docs/ by their place on the site."""

_SEARCH_EXCLUSIONS: Final = ("decisions", "project")
"""Folders whose pages the search omits: they are for developers."""

_DATA_FORMATS: Final = ("json", "json-version-2", "bundle-format", "launch-format")
"""Pages that the search lists below guides with the same words."""

_UNNEEDED_FILES: Final = ("*.map", "lunr", "sitemap.xml*", "LICENSE")
"""Files that the generator writes and no page needs."""
_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\(<?(?P<target>[^)\s>]+)>?\)")
_FENCE: Final = re.compile(r"(^(`{3,}|~{3,}).*?^\2[ ]*$)", re.M | re.S)
_TITLE: Final = re.compile(r"^# (.+)$", re.M)


def main() -> None:
    """Stage the pages and build the site."""
    shutil.rmtree(STAGING_FOLDER, ignore_errors=True)
    places = list_site_files()
    for source, target in drop_unused_pictures(places).items():
        stage_file(source, STAGING_FOLDER / target, places)
    config = {
        "INHERIT": os.path.relpath(ROOT / "mkdocs.yml", _CONFIG.parent),
        "docs_dir": STAGING_FOLDER.name,
        "site_dir": os.path.relpath(SITE_FOLDER, _CONFIG.parent),
        "nav": build_navigation(),
    }
    _CONFIG.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(_CONFIG)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, env=environment, check=True)
    for pattern in _UNNEEDED_FILES:
        for path in SITE_FOLDER.rglob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def list_site_files() -> dict[Path, str]:
    """The files of the site, each with its path there."""
    files = {
        path: path.relative_to(DOCS).as_posix()
        for path in sorted(DOCS.rglob("*"))
        if path.is_file()
    }
    files |= {ROOT / name: target for name, target in PROJECT.items() if (ROOT / name).is_file()}
    return files


def stage_file(source: Path, target: Path, places: dict[Path, str]) -> None:
    """Copy a file to its place; the links of a page lead to pages of the site."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix != ".md":
        shutil.copyfile(source, target)
        return
    # Every second piece is a block of code, every third its fence.
    pieces = _FENCE.split(source.read_text(encoding="utf-8"))
    for index in range(0, len(pieces), 3):
        pieces[index] = _rewrite_links(pieces[index], source, target, places)
    page_text = "".join(piece for index, piece in enumerate(pieces) if index % 3 != 2)
    if target.parent.name in _SEARCH_EXCLUSIONS:
        page_text = f"---\nsearch:\n  exclude: true\n---\n{page_text}"
    elif target.stem in _DATA_FORMATS:
        page_text = f"---\nsearch:\n  boost: 0.3\n---\n{page_text}"
    target.write_text(page_text, encoding="utf-8")


def drop_unused_pictures(places: dict[Path, str]) -> dict[Path, str]:
    """The places without pictures that no page shows."""
    pages = (path.read_text(encoding="utf-8") for path in places if path.suffix == ".md")
    text = "".join(pages)
    return {
        path: target
        for path, target in places.items()
        if path.suffix != ".webp" or path.name in text
    }


def _rewrite_links(text: str, source: Path, target: Path, places: dict[Path, str]) -> str:
    def rewrite_link(match: re.Match[str]) -> str:
        page, mark, anchor = match["target"].partition("#")
        if not page or re.match(r"[a-z]+:", page):
            return match[0]
        file = (source.parent / page).resolve()
        if file.is_dir() and (file / "README.md") in places:
            file = file / "README.md"
        if file not in places:
            return match["text"]
        way = os.path.relpath(STAGING_FOLDER / places[file], target.parent)
        return f"[{match['text']}]({way}{mark}{anchor})"

    def rewrite_picture(match: re.Match[str]) -> str:
        file = (source.parent / match[2]).resolve()
        if file not in places:
            return match[0]
        return match[1] + os.path.relpath(STAGING_FOLDER / places[file], target.parent)

    text = _LINK.sub(rewrite_link, text)
    return re.sub(r"(!\[[^\]]*\]\(|src(?:set)?=\")([^)\s\":]+)", rewrite_picture, text)


def build_navigation() -> list[dict[str, object]]:
    """The pages by part; within a part in the order of the links on the first page."""
    index = STAGING_FOLDER / "index.md"
    order = [target for _, target in _LINK.findall(index.read_text(encoding="utf-8"))]

    def rank(path: Path) -> tuple[int, str]:
        name = path.relative_to(STAGING_FOLDER).as_posix()
        pages = [place.partition("#")[0] for place in order]
        return (pages.index(name) if name in pages else len(pages), _get_title(path))

    items: list[dict[str, object]] = [{"Home": "index.md"}]
    for folder, title in SECTIONS.items():
        pages = sorted((STAGING_FOLDER / folder).glob("*.md"), key=rank)
        if pages:
            items.append({title: [_build_entry(page) for page in pages]})
    others = sorted(set(STAGING_FOLDER.glob("*.md")) - {index}, key=rank)
    if others:
        items.append({"More": [_build_entry(page) for page in others]})
    project = [_build_entry(page) for page in sorted((STAGING_FOLDER / "project").glob("*.md"))]
    decisions = sorted((STAGING_FOLDER / "decisions").glob("*.md"), key=lambda path: path.name)
    if decisions:
        project.append({"Decisions": [_build_entry(page) for page in decisions]})
    items.append({"Project": project})
    return items


def _build_entry(page: Path) -> dict[str, object]:
    return {_get_title(page): page.relative_to(STAGING_FOLDER).as_posix()}


def _get_title(page: Path) -> str:
    match = _TITLE.search(page.read_text(encoding="utf-8"))
    return match[1] if match else page.stem


if __name__ == "__main__":
    main()
