"""The names of the nodes of many graphs: each name once, and a code for each node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

CODE: Final = "I"
"""The type of a code, as ``array`` and ``memoryview`` call it."""


class NodeNames(Struct, frozen=True):
    """Names of nodes, as :func:`~graphviz_dash.model.graph.node_label` gives them. A million nodes
    have some hundred names; as codes they are compared without an object for each."""

    names: tuple[str, ...]
    """Each once; a code is a place among them."""
    codes: dict[str, bytes]
    """The codes of a graph's nodes by its id, in creation order, each a :data:`CODE`."""

    def of(self, graphs: Iterable[str]) -> list[str]:
        """The names of the nodes of ``graphs``, one graph after the other.

        Raises:
            KeyError: one of them was not read.
        """
        codes = b"".join(self.codes[graph] for graph in graphs)
        return [self.names[code] for code in memoryview(codes).cast(CODE)]
