"""Write the generated pages: ``python -m scripts.reference``."""

from __future__ import annotations

from scripts.reference.pages import FOLDER, format_page, list_pages


def main() -> None:
    """Write all pages into docs/reference."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in list_pages():
        (FOLDER / f"{name}.md").write_text(format_page(name), encoding="utf-8")


if __name__ == "__main__":
    main()
