"""Compute the overview's cards, before traces are read, in a separate process.

    python -m graphviz_dash.app.hosting.cards_process [FOLDERS...]

writes one line of JSON, a :class:`~graphviz_dash.app.hosting.cards_client.CardMessage`, for each
experiment that the server would find with the same arguments, as soon as it is available.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Write the cards of all experiments."""
    # The process is short-lived and creates no cycles, not even during imports.
    gc.disable()
    import msgspec

    from graphviz_dash.errors import InputError
    from graphviz_dash.ingest.load import find_experiments
    from graphviz_dash.ui.state.catalogue import get_roots

    for root in get_roots():
        try:
            folders = find_experiments(root)
        except InputError:
            continue  # the page reports this
        for path in folders:
            # Imports the analysis, half a second that an empty folder does not need.
            from graphviz_dash.app.overview.experiment_card import build_first_card_message

            sys.stdout.buffer.write(msgspec.json.encode(build_first_card_message(path)) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
