"""Node names of many graphs, stored as one table of names and a code per node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

CODE_TYPE: Final = "I"
"""Type code of a name code, for ``array`` and ``memoryview``."""


class NodeNames(Struct, frozen=True):
    """Names from :func:`~graphviz_dash.model.graph.format_node_label`.

    A million nodes share a few hundred names. Codes compare without an object per node.
    """

    names: tuple[str, ...]
    """Distinct names. A code is an index into them."""
    codes: dict[str, bytes]
    """By graph id, in creation order, each a :data:`CODE_TYPE`."""

    def get_names(self, graphs: Iterable[str]) -> list[str]:
        """Return the names of the nodes of ``graphs``, one after the other.

        Raises:
            KeyError: A graph was not read.
        """
        codes = b"".join(self.codes[graph] for graph in graphs)
        return [self.names[code] for code in memoryview(codes).cast(CODE_TYPE)]
