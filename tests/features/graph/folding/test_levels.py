"""Modules that lead to each other in a circle, shown once for each visit."""

from __future__ import annotations

from tests.analysis.fold.module_trees import said, tree
from tests.analysis.fold.trees import line


def test_a_module_that_is_entered_again_is_shown_for_each_visit() -> None:
    names = ["embed", "embed", "block", "block", "embed", "embed"]
    root = tree(line(6), *(f"forward:Net.{name}" for name in names))
    assert said(root) == [
        ("Net.embed", "visit 1 of 2", 2),
        ("Net.block", "", 2),
        ("Net.embed", "visit 2 of 2", 2),
    ]


def test_only_what_is_on_a_circle_is_taken_apart() -> None:
    names = ["a", "a", "b", "b", "a", "a", "c", "d", "c", "d", "c"]
    edges = [*line(6), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10)]
    root = tree(edges, *(f"forward:Net.{name}" for name in names))
    assert [(title, note) for title, note, _ in said(root) if title.startswith("Net.")] == [
        ("Net.a", "visit 1 of 2"),
        ("Net.b", ""),
        ("Net.a", "visit 2 of 2"),
        ("Net.c", ""),
        ("Net.d", ""),
    ]
