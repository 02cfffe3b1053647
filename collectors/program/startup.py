"""Record the ledger of a program's process, and write it into its folder."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import perf_counter_ns
from typing import Final

import torch

from collectors.allocator.history import AllocationWatch
from collectors.guard import Guard
from collectors.ledger.context import create_only_context, watch_initialization
from collectors.ledger.recorder import LedgerRecorder
from collectors.ledger.samples import find_context
from collectors.program.files import LEDGER_FILE, ProcessFolder
from collectors.program.flusher import Flusher
from graphviz_dash.model.ledger import SampleKind, SpanKind

_INTERVAL_S: Final = 0.05


class StartupLedger:
    """Records the ledger of this process. Errors go to ``guard``.

    A thread takes samples from the initialization of CUDA to the end of the start-up.
    """

    def __init__(self, guard: Guard) -> None:
        self.recorder = LedgerRecorder(guard)
        self._allocations = self.recorder.allocations = AllocationWatch()
        self._folder: ProcessFolder | None = None
        self._guard = guard
        self._sampler = Flusher(self._tick, _INTERVAL_S)
        self._stop_watching: Callable[[], None] = lambda: None
        self._entered = False
        self._started = False
        self._written = -1
        self._writing = Lock()

    def connect(self, folder: ProcessFolder, count_replays: Callable[[], int]) -> None:
        """Write into ``folder`` from now on, and count replays with ``count_replays``."""
        self._folder = folder
        self.recorder.count_replays = count_replays

    def start(self) -> None:
        """Start to record, unless started."""
        if self._started:
            return
        self._started = True
        self.recorder.start()
        self._stop_watching = watch_initialization(
            self._prepare_initialization, self._handle_initialization
        )

    def stop(self) -> None:
        """Restore the program, also in a forked child."""
        self._restore()
        with self._guard:
            self._allocations.cancel()

    def _restore(self) -> None:
        self._stop_watching()
        self.recorder.stop()
        self.recorder.holders.stop()

    def finish(self) -> None:
        """Stop and write the ledger."""
        self._sampler.stop()
        self._restore()
        if self.recorder.has_context:
            self.recorder.end_startup()
            self.recorder.sample(SampleKind.END)
            with self._guard:
                self.recorder.record_state(collect=False)
        self.stop()
        self.write()

    def write(self) -> None:
        """Write the ledger if it has changed."""
        with self._writing:
            changes = self.recorder.changes
            if self._folder is not None and changes != self._written:
                self._written = changes
                self._folder.put(LEDGER_FILE, self.recorder.build())

    def begin_capture(self, graph_id: str, begin: int) -> None:
        """Handle the start of a capture. ``begin``: start of the recorder's work for it."""
        self.recorder.begin_capture(graph_id, begin)
        if not self._sampler.started:
            self._sampler.start()

    def _prepare_initialization(self) -> None:
        with self._guard:
            self.recorder.record_used_before()

    def _handle_initialization(self, begin: int, end: int) -> None:
        with self._guard:
            if create_only_context():
                self.recorder.sample(SampleKind.CONTEXT)
            self.recorder.add_span(SpanKind.CONTEXT, "", begin, perf_counter_ns())
            self._sampler.start()

    def _tick(self) -> bool:
        """Take a sample, and end the start-up if it is over. Returns True after that."""
        recorder = self.recorder
        with self._guard:
            if not self._entered:
                device = find_context()
                if device is None:
                    return False
                torch.cuda.set_device(device)
                self._entered = True
            if not recorder.is_capturing:
                recorder.sample(SampleKind.PERIODIC)
            if recorder.is_startup_over():
                recorder.end_startup()
                # Later, an engine may be killed before the next write of the state.
                self.write()
        return recorder.is_startup_done
