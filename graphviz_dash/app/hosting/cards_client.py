"""Compute the overview's first cards, before traces are read, in a separate process.

The cards need the analysis package, whose import and work use half a second of CPU time. A server
thread would delay the answers to the first page. A separate process finishes while the browser
still loads the page's scripts; the server imports the analysis after the page is sent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from graphviz_dash.ui.state.identity import compute_identity

_PROGRAM: Final = "graphviz_dash.app.hosting.cards_process"
_PACKAGES: Final = Path(__file__).parents[3]
"""Folder that contains the package, which need not be installed."""
_NICENESS: Final = 10


KINDS: Final = ("Collected", "Recorded", "Imported", "With failures", "Several ranks")
"""Filters for experiments."""


class Card(msgspec.Struct, frozen=True):
    """Summary of an experiment on the overview."""

    location_markup: str
    """Markup next to its name."""
    facts_markup: str
    """Markup below its name."""
    pages: tuple[str, ...]
    """Names of the pages with content for it."""
    description: str
    """Description in plain text, also searched."""
    created: str
    """Creation time of its newest run, ISO 8601."""
    speedup: float | None
    """Speedup of the fastest run over the baseline, or the prediction; None if unavailable."""
    kinds: tuple[str, ...]
    """Matching values of KINDS."""


class CardMessage(msgspec.Struct, frozen=True):
    """The card of the experiment at ``path``, for its ``identity``.

    See :func:`~graphviz_dash.ui.state.identity.compute_identity`. The card is None if the
    experiment could not be read.
    """

    path: str
    identity: bytes
    card: Card | None


class FirstCards:
    """Cards that the process has computed so far. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._cards: dict[str, CardMessage] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, arguments: Sequence[str]) -> None:
        """Start the process on the experiments selected by the server's ``arguments``."""
        paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            # -P: never import modules from the user's working folder.
            [sys.executable, "-P", "-m", _PROGRAM, *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # The server retries what fails here and reports the error.
            stderr=subprocess.DEVNULL,
            # Ctrl-C stops the server, and the server stops this process.
            start_new_session=True,
        )
        with self._changed:
            self._process = process
        assert process.stdout is not None
        threading.Thread(
            target=self._read_messages,
            args=(process, process.stdout),
            name="graphviz-dash first cards",
            daemon=True,
        ).start()

    def get_card(self, path: Path) -> Card | None:
        """Wait for and return the card of the experiment at ``path``.

        None if the experiment could not be read or has changed, or if the process ended without a
        card for it.
        """
        with self._changed:
            self._changed.wait_for(lambda: str(path) in self._cards or self._process is None)
            message = self._cards.get(str(path))
        if message is None or message.identity != compute_identity(path):
            return None
        return message.card

    def lower_priority(self) -> None:
        """Lower the process priority while the browser loads a page other than the overview."""
        with self._changed:
            process = self._process
        if process is not None and hasattr(os, "setpriority"):
            with suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)

    def stop(self) -> None:
        """Stop the process if it still runs."""
        with self._changed:
            process = self._process
        if process is not None:
            process.kill()

    def _read_messages(self, process: subprocess.Popen[bytes], lines: IO[bytes]) -> None:
        decoder = msgspec.json.Decoder(CardMessage)
        try:
            # An undecodable line ends the process, like any other failure.
            with lines, suppress(msgspec.DecodeError):
                for line in lines:
                    message = decoder.decode(line)
                    with self._changed:
                        self._cards[message.path] = message
                        self._changed.notify_all()
        finally:
            process.kill()
            process.wait()
            with self._changed:
                self._process = None
                self._changed.notify_all()


FIRST_CARDS: Final = FirstCards()
