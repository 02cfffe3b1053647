"""Compute the overview's cards in a separate process.

    python -m graphviz_dash.app.hosting.cards_process [FOLDERS...]

writes one line of JSON, a :class:`~graphviz_dash.app.hosting.cards_client.CardMessage`, for each
experiment that the server would find with the same arguments, as soon as it is available. Each line
of stdin is a :class:`~graphviz_dash.app.hosting.cards_client.CardRequest`, which is answered first.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from graphviz_dash.app.hosting.cards_client import (
    CARD_SUMMARIES,
    MAX_OPENED,
    CardMessage,
    CardRequest,
    Message,
    PassMessage,
    SearchMessage,
    decode_card,
    lower_priority,
)
from graphviz_dash.charts.shades import Theme
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.identity import Identity, measure_identity
from graphviz_dash.ingest.summaries import Summary, SummaryCache, get_default_summaries
from graphviz_dash.ui.state.catalogue import get_roots, search_folder

_BATCH: Final = 50
"""Cards stored together, and built between two garbage collections."""


class _Cards:
    """Cards of all experiments, written to stdout."""

    def __init__(self, roots: tuple[Path, ...], cache: SummaryCache | None) -> None:
        self._roots = roots
        self._cache = cache
        self._requests: SimpleQueue[CardRequest] = SimpleQueue()
        self._sent: dict[str, bytes] = {}
        self._searched: set[Path] = set()
        self._built = 0

    def run(self) -> None:
        """Write all cards; then answer requests if there are too many experiments to open."""
        threading.Thread(target=self._read_requests, daemon=True).start()
        while True:
            if self._write_all() <= MAX_OPENED:
                return
            while (request := self._requests.get()).path is not None:
                self._handle_request(request)

    def _read_requests(self) -> None:
        decoder = msgspec.json.Decoder(CardRequest)
        partial = b""
        # Not sys.stdin, whose lock this thread would hold at the end of the process.
        while data := os.read(sys.stdin.fileno(), 1 << 16):
            *lines, partial = (partial + data).split(b"\n")
            for line in lines:
                self._requests.put(decoder.decode(line))
        os._exit(0)  # the server has ended

    def _write_all(self) -> int:
        """Write the changed cards and return the number of experiments."""
        count = 0
        for root in self._roots:
            try:
                search = search_folder(root, poll=self._handle_requests)
            except InputError:
                continue  # the page reports this
            if search.is_large and root not in self._searched:
                self._searched.add(root)
                self._write(SearchMessage(str(root), search))
            count += len(search.experiments)
            self._write_root(root, [folder for _, folder in search.experiments])
        self._handle_requests()
        self._write(PassMessage())
        return count

    def _write_root(self, root: Path, folders: list[Path]) -> None:
        summaries = {} if self._cache is None else self._cache.load(CARD_SUMMARIES[None], root)
        new_summaries: list[Summary] = []
        for folder in folders:
            self._handle_requests()
            if len(self._sent) == MAX_OPENED:
                # The first page is complete; other pages and searches do not wait for the rest.
                lower_priority(os.getpid())
            path, identity = str(folder), measure_identity(folder)
            digest, content = summaries.pop(path, (b"", b""))
            if self._sent.get(path) == identity.digest:
                continue
            card = decode_card(content) if digest == identity.digest else None
            if card is not None:
                self._write(CardMessage(path, identity.digest, card))
            else:
                message = self._build(folder, None)
                self._write(message)
                new_summaries += _summarise(message, identity)
            self._sent[path] = identity.digest
            if len(new_summaries) >= _BATCH and self._cache is not None:
                self._cache.store(CARD_SUMMARIES[None], new_summaries)
                new_summaries.clear()
        if self._cache is not None:
            self._cache.store(CARD_SUMMARIES[None], new_summaries)
            if summaries:
                for kind in CARD_SUMMARIES.values():
                    self._cache.prune(kind, root, map(str, folders))

    def _handle_requests(self) -> None:
        while True:
            try:
                request = self._requests.get_nowait()
            except Empty:
                return
            if request.path is not None:
                self._handle_request(request)

    def _handle_request(self, request: CardRequest) -> None:
        assert request.path is not None
        folder, kind = Path(request.path), CARD_SUMMARIES[request.theme]
        # Uploads are not cached.
        cache = self._cache if any(map(folder.is_relative_to, self._roots)) else None
        identity = measure_identity(folder)
        digest, content = (
            (b"", b"") if cache is None else cache.load(kind, folder).get(request.path, (b"", b""))
        )
        card = decode_card(content) if digest == identity.digest else None
        if card is not None:
            self._write(
                CardMessage(request.path, identity.digest, card, request.theme, request.number)
            )
            return
        message = self._build(folder, request.theme)
        self._write(msgspec.structs.replace(message, request=request.number))
        if cache is not None:
            cache.store(kind, _summarise(message, identity))

    def _build(self, folder: Path, theme: Theme | None) -> CardMessage:
        # Imports the analysis, half a second that an empty folder does not need.
        from graphviz_dash.app.overview.experiment_card import build_card_message

        self._built += 1
        if self._built % _BATCH == 0:
            gc.collect()
        return build_card_message(folder, theme)

    def _write(self, message: Message) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(message, enc_hook=str) + b"\n")
        sys.stdout.buffer.flush()


def _summarise(message: CardMessage, identity: Identity) -> list[Summary]:
    """Return the summary to store; none if unreadable or changed meanwhile."""
    if message.card is None or message.identity != identity.digest:
        return []
    return [Summary(message.path, identity, msgspec.json.encode(message.card))]


def main() -> None:
    """Write the cards of all experiments."""
    # Collections during imports cost more than the garbage.
    gc.disable()
    _Cards(get_roots(), get_default_summaries()).run()


if __name__ == "__main__":
    main()
