"""Keep the overview's cards, computed in a separate process.

The cards need the analysis package, whose import and work use half a second of CPU time. A server
thread would delay the first page. A separate process finishes while the browser still loads
scripts; the server imports the analysis later.

The process caches cards on disk. For up to :data:`MAX_OPENED` experiments it ends after the last
first card, and the server opens all experiments. For more, the process stays, and the server opens
only those that a visitor opens.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec

from graphviz_dash.charts.shades import Theme
from graphviz_dash.ingest.identity import compute_identity
from graphviz_dash.ui.state.catalogue import (
    NamedExperiments,
    find_roots,
    preload_searches,
    record_search,
)

_PROGRAM: Final = "graphviz_dash.app.hosting.cards_process"
_PACKAGES: Final = Path(__file__).parents[3]
"""Folder that contains the package, which need not be installed."""
_NICENESS: Final = 10
"""Priority of work that no visitor waits for."""
_REFRESH_S: Final = 30.0
"""Seconds between two looks at all experiments."""
_POLL_S: Final = 0.05
MAX_OPENED: Final = 50
"""Maximum number of experiments that the server opens for the overview."""

CARD_SUMMARIES: Final[dict[Theme | None, str]] = {
    None: "card",
    "light": "card-light",
    "dark": "card-dark",
}
"""Kind of cached summary by theme."""

KINDS: Final = ("Collected", "Recorded", "Imported", "With failures", "Several ranks")
"""Filters for experiments."""


class Card(msgspec.Struct, frozen=True):
    """Summary of an experiment on the overview."""

    location_markup: str
    """Markup next to its name."""
    outcome_markup: str
    """Markup below its name: description, outcome and problems."""
    bars_markup: str
    """Bars of the step times, not shown in a table."""
    facts_markup: str
    """Markup of the changes between baseline and fastest run."""
    pages: tuple[str, ...]
    """Names of the pages with content for it."""
    description: str
    """Description in plain text, also searched."""
    created: str
    """Creation time of the newest run, ISO 8601."""
    speedup: float | None
    """Speedup of the fastest run over the baseline, or the prediction; None if unavailable."""
    kinds: tuple[str, ...]
    """Matching values of KINDS."""


def decode_card(content: bytes) -> Card | None:
    """Decode a cached card; None if damaged."""
    try:
        return msgspec.json.decode(content, type=Card)
    except msgspec.MsgspecError:
        return None


class CardMessage(msgspec.Struct, frozen=True, tag="card"):
    """The card of the experiment at ``path``, for its ``identity``.

    See :func:`~graphviz_dash.ingest.identity.compute_identity`. The card is None if the experiment
    could not be read.
    """

    path: str
    identity: bytes
    card: Card | None
    theme: Theme | None = None
    """Theme of a card with the figures of the traces; None without them."""
    request: int | None = None
    """Number of the answered request; None if not requested."""


class PassMessage(msgspec.Struct, frozen=True, tag="pass"):
    """Cards of all experiments are current."""


class SearchMessage(msgspec.Struct, frozen=True, tag="search"):
    """The experiments under the folder ``root``, if it is large; sent before their cards."""

    root: str
    search: NamedExperiments


Message = CardMessage | PassMessage | SearchMessage


class CardRequest(msgspec.Struct, frozen=True):
    """Request for the card of the experiment at ``path``, before others."""

    path: str | None
    """None to look at all experiments again."""
    theme: Theme | None = None
    """Theme of the full card; None for the card without traces."""
    number: int = 0
    """Number of the request; requests are answered in this order."""


def lower_priority(process: int) -> None:
    """Lower the priority of a process, and of its session if it has its own."""
    if hasattr(os, "setpriority"):
        with suppress(OSError):  # it has ended
            niceness = max(os.getpriority(os.PRIO_PROCESS, process), _NICENESS)
            os.setpriority(os.PRIO_PROCESS, process, niceness)
            if os.getsid(process) == process:
                # Linux shares the processors between sessions first, then between processes.
                Path(f"/proc/{process}/autogroup").write_text(str(niceness), encoding="ascii")


class FirstCards:
    """Cards that the process has computed so far. Thread-safe.

    Args:
        clock: current time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._changed = threading.Condition()
        self._cards: dict[tuple[str, Theme | None], CardMessage] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._arguments: Sequence[str] | None = None
        self._prepared_arguments: Sequence[str] | None = None
        self._clock = clock
        self._last_pass_s: float | None = None
        self._last_request = 0
        self._last_answer = 0

    def begin(self, arguments: Sequence[str]) -> None:
        """Start the process, unless a server of these ``arguments`` has begun already.

        If the cards of the first page are in the cache, the process starts after that page.
        """
        with self._changed:
            if self._arguments is not None or self._prepared_arguments is not None:
                return
        if preload_searches(find_roots(arguments)):
            self.prepare(arguments)
        else:
            self.start(arguments)

    def start(self, arguments: Sequence[str]) -> None:
        """Start the process with the server's ``arguments``."""
        paths = [str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])]
        process = subprocess.Popen(
            # -P: never import modules from the user's working folder.
            [sys.executable, "-P", "-m", _PROGRAM, *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            # The process ends when the server does.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # The server retries what fails here and reports the error.
            stderr=subprocess.DEVNULL,
            # Ctrl-C stops the server, and the server stops this process.
            start_new_session=True,
        )
        with self._changed:
            self._process = process
            self._arguments = arguments
            self._last_pass_s = None
        assert process.stdout is not None
        threading.Thread(
            target=self._read_messages,
            args=(process, process.stdout),
            name="graphviz-dash first cards",
            daemon=True,
        ).start()

    def prepare(self, arguments: Sequence[str]) -> None:
        """Prepare the process to start after the first page, whose cards are in the cache."""
        with self._changed:
            self._prepared_arguments = arguments

    def start_prepared(self) -> None:
        """Start the prepared process, if any."""
        with self._changed:
            arguments, self._prepared_arguments = self._prepared_arguments, None
        if arguments is not None:
            self.start(arguments)

    def get_card(
        self, path: Path, theme: Theme | None = None, poll: Callable[[], object] | None = None
    ) -> Card | None:
        """Wait for and return a card.

        None if the experiment is unreadable or has changed, or the process ended. ``poll`` is
        called while waiting; it may raise an exception to stop.
        """
        identity = compute_identity(path)
        key = (str(path), theme)
        with self._changed:
            if (message := self._find_message(key, identity)) is None:
                self._last_request = number = self._last_request + 1
                self._request(CardRequest(str(path), theme, number))
                # A message of an earlier version may arrive before the answer.
                while (
                    (message := self._find_message(key, identity)) is None
                    and self._last_answer < number
                    and self._process is not None
                ):
                    self._changed.wait(None if poll is None else _POLL_S)
                    if poll is not None:
                        poll()
        return None if message is None else message.card

    def load_cached_cards(self, paths: Sequence[Path], theme: Theme) -> None:
        """Load cards from the cache, without waiting for the process."""
        # SQLite is only needed for many experiments.
        from graphviz_dash.ingest.summaries import get_default_summaries

        summaries = get_default_summaries()
        if summaries is None:
            return
        for card_theme in (theme, None):
            cached_cards = summaries.load_some(CARD_SUMMARIES[card_theme], map(str, paths))
            with self._changed:
                for path, (identity, content) in cached_cards.items():
                    card = decode_card(content)
                    if card is not None:
                        message = CardMessage(path, identity, card, card_theme)
                        self._cards.setdefault((path, card_theme), message)

    def has_current_cards(self, paths: Sequence[Path], theme: Theme) -> bool:
        """Check whether each of ``paths`` has a known and current card."""
        return all(
            self.find_current_card(path, theme) or self.find_current_card(path, None)
            for path in paths
        )

    def find_current_card(self, path: Path, theme: Theme | None) -> Card | None:
        """Return the card of the experiment at ``path`` if it is known and current."""
        with self._changed:
            message = self._find_message((str(path), theme), compute_identity(path))
        return None if message is None else message.card

    def find_cards(self, paths: Iterable[Path]) -> list[Card | None]:
        """Return the last known cards; experiments may have changed."""
        with self._changed:
            messages = [self._cards.get((str(path), None)) for path in paths]
        return [None if message is None else message.card for message in messages]

    def count_unknown(self, paths: Iterable[Path]) -> int:
        """Count the unknown cards; 0 if no process computes them."""
        with self._changed:
            if self._process is None:
                return 0
            return sum((str(path), None) not in self._cards for path in paths)

    def refresh(self) -> None:
        """Look for changed experiments, unless that happened recently."""
        with self._changed:
            now_s, last_s = self._clock(), self._last_pass_s
            if self._process is not None:
                if last_s is not None and now_s - last_s > _REFRESH_S:
                    self._last_pass_s = None
                    self._request(CardRequest(None))
                return
            arguments = self._arguments
            if arguments is None or (last_s is not None and now_s - last_s <= _REFRESH_S):
                return
            self._last_pass_s = now_s
        self.start(arguments)

    def lower_priority(self) -> None:
        """Lower the process priority while the browser loads a page other than the overview."""
        with self._changed:
            if self._process is not None:
                lower_priority(self._process.pid)

    def stop(self) -> None:
        """Stop the process if it still runs."""
        with self._changed:
            self._arguments = self._prepared_arguments = None
            if self._process is not None:
                self._process.kill()

    def _find_message(self, key: tuple[str, Theme | None], identity: bytes) -> CardMessage | None:
        """Find the message for an identity; the caller holds the lock."""
        message = self._cards.get(key)
        return message if message is not None and message.identity == identity else None

    def _request(self, request: CardRequest) -> None:
        """Send a request to the process; the caller holds the lock."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):  # it has ended
                self._process.stdin.write(msgspec.json.encode(request) + b"\n")
                self._process.stdin.flush()

    def _read_messages(self, process: subprocess.Popen[bytes], lines: IO[bytes]) -> None:
        decoder = msgspec.json.Decoder(Message, dec_hook=lambda _, text: Path(text))
        try:
            # An undecodable line ends the process, like any other failure.
            with lines, suppress(msgspec.DecodeError):
                for line in lines:
                    message = decoder.decode(line)
                    if isinstance(message, SearchMessage):
                        record_search(Path(message.root), message.search)
                        continue
                    with self._changed:
                        if isinstance(message, PassMessage):
                            self._last_pass_s = self._clock()
                        else:
                            self._cards[message.path, message.theme] = message
                            self._last_answer = message.request or self._last_answer
                        self._changed.notify_all()
        finally:
            # First, because its number may be another process's once it is waited for.
            with self._changed:
                self._process = None
                self._changed.notify_all()
            process.kill()
            process.wait()
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()


FIRST_CARDS: Final = FirstCards()
