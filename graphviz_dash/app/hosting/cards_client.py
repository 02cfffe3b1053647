"""The overview's cards as they are before traces are read, made by a process of its own.

They need the analysis, whose import and work take half a second of one core. A thread of the server
would take it from the answers to a browser that asks for the first page. A process beside it is at
its end while that browser still loads the scripts of the page; the server imports the analysis
after the page is sent.
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

from graphviz_dash.ui.state.identity import identity_of

_PROGRAM: Final = "graphviz_dash.app.hosting.cards_process"
_PACKAGES: Final = Path(__file__).parents[3]
"""Where the package lies, which need not be installed."""
_NICENESS: Final = 10


KINDS: Final = ("Collected", "Recorded", "Imported", "With failures", "Several ranks")
"""What experiments are filtered by."""


class Card(msgspec.Struct, frozen=True):
    """What the overview tells of an experiment."""

    where: str
    """Markup beside its name."""
    facts: str
    """Markup below it."""
    pages: tuple[str, ...]
    """Names of the pages that have something to show of it."""
    about: str
    """What it is, in plain text; searched too."""
    created: str
    """When its newest run was made, ISO 8601."""
    speedup: float | None
    """Of the fastest run over the baseline, or as predicted; None without either."""
    kinds: tuple[str, ...]
    """Those of KINDS that it is of."""


class CardMessage(msgspec.Struct, frozen=True):
    """The card of the experiment at ``path``, as it was by its ``identity``
    (:func:`~graphviz_dash.ui.state.identity.identity_of`); None if it could not be read."""

    path: str
    identity: bytes
    card: Card | None


class FirstCards:
    """The cards that the process has made so far; safe to use from threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._cards: dict[str, CardMessage] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, arguments: Sequence[str]) -> None:
        """Starts the process on the experiments that ``arguments`` of the server's command line
        lead to."""
        places = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            # No module is imported from the working folder, which is a visitor's.
            [sys.executable, "-P", "-m", _PROGRAM, *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # What it fails at is done by the server, which says what is wrong.
            stderr=subprocess.DEVNULL,
            # Ctrl-C ends the server, and the server ends it.
            start_new_session=True,
        )
        with self._changed:
            self._process = process
        assert process.stdout is not None
        threading.Thread(
            target=self._listen,
            args=(process, process.stdout),
            name="graphviz-dash first cards",
            daemon=True,
        ).start()

    def of(self, path: Path) -> Card | None:
        """The card of the experiment at ``path``, waiting for it while the process runs; None if
        the experiment could not be read or has changed since, or the process ends, or has ended,
        without a word of it."""
        with self._changed:
            self._changed.wait_for(lambda: str(path) in self._cards or self._process is None)
            message = self._cards.get(str(path))
        if message is None or message.identity != identity_of(path):
            return None
        return message.card

    def give_way(self) -> None:
        """Lets whatever else the machine does go first, from now on: a browser has asked for
        another page than the overview, and needs the cores that it would take."""
        with self._changed:
            process = self._process
        if process is not None and hasattr(os, "setpriority"):
            with suppress(OSError):  # it ended meanwhile
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)

    def end(self) -> None:
        """Ends the process, if it still runs."""
        with self._changed:
            process = self._process
        if process is not None:
            process.kill()

    def _listen(self, process: subprocess.Popen[bytes], lines: IO[bytes]) -> None:
        decoder = msgspec.json.Decoder(CardMessage)
        try:
            # What is no word of ours ends it, as a failure of the process does.
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
