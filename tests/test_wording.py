"""Phrases that reviewers found odd stay out of the product's text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ODD: Final = (
    *("faster: graph against eager", "hardly faster", "predicted as one graph"),
    *("What stops a capture", "in its own loop, recorded once", "Search by name or what it is"),
    *("Open files from this computer", "as it is, recorded in", "none was timed without it"),
    *("GPU work takes longer than that", "Look at it", "Compared with it", "is yours to judge"),
    *("in the shape of vLLM", "less waiting for launches", "Not as it stands"),
    *("one place stops a capture", "in which the GPU idles", "each failed in its clean"),
    *("are of different work", "What follows is of all", "traced passes divide it"),
    *("in integer nanoseconds;", "instants of the CPU", "what that does not explain"),
    *("no graph was looked at", "Where the time of a step", "Every clean iteration"),
    *("thrown away, they", "How to get what is missing", "makes the median surer"),
    *("launches take eagerly", "What the recorder saw", "laid on what ran"),
    *("Called outside the captured parts", "lead to an operator", "entangled", "Least to most"),
    *("Lost before it", "leave one order", "no memory in common", "gain nothing worth"),
    *("can undercut", "What needs what", "no number undercuts", "By its rules"),
    *("instantiating anew", "around the pointer", "in view: ", "without a graph that fits"),
    *("program's own word", "Other kernels are chosen", "No ladder is better"),
    *("of it padding", "Sizes at most", "in its segments", "What to mend", "one step for torch"),
    *("An input is written", "behind the compiled", "four mends", "rest behind a graph"),
    *("Dynamo cannot go on", "against it graph", "made ready: graphs", "comes last to"),
    *("These figures are of", "linear chains in constant time", "too uncertain"),
    *("perhaps illegal", "that no capture allows", "as the doctor saw", "to take along"),
    *("that other programs wrote", "At most so many", "Tell again", "printed address brings"),
    *("nobody has looked at", "Once it costs", "is surely"),
)
"""Parts of the strings that the review of the pages lists with replacements."""


def test_no_odd_phrase_is_back() -> None:
    sources = [
        (path, path.read_text(encoding="utf-8"))
        for package in ("graphviz_dash", "collectors")
        for suffix in ("py", "js")
        for path in (ROOT / package).rglob(f"*.{suffix}")
    ]
    assert len(sources) > 300
    back = [
        (phrase, str(path.relative_to(ROOT)))
        for phrase in ODD
        for path, text in sources
        if phrase in text
    ]
    assert back == []
