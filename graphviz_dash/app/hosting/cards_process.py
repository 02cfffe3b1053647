"""A process that makes the overview's cards as they are before traces are read.

    python -m graphviz_dash.app.hosting.cards_process [FOLDERS...]

writes of every experiment under the folders that the server would find with the same arguments: a
line of JSON each, an :class:`~graphviz_dash.app.hosting.cards_client.CardMessage`, at once when it
is known.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Writes the cards of all experiments."""
    # At its end in a moment, and what it makes has no cycles: not even while modules are imported.
    gc.disable()
    import msgspec

    from graphviz_dash.errors import InputError
    from graphviz_dash.ingest.load import find_experiments
    from graphviz_dash.ui.state.catalogue import roots

    for root in roots():
        try:
            folders = find_experiments(root)
        except InputError:
            continue  # the page says so
        for path in folders:
            # With the analysis, half a second that nobody needs where no experiment lies.
            from graphviz_dash.app.overview.experiment_card import first_card_message

            sys.stdout.buffer.write(msgspec.json.encode(first_card_message(path)) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
