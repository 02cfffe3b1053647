"""Listen to torch.compile without changing the program's own logging.

An additional handler enables torch's structured trace. Loggers of ``cudagraphs`` log everything,
with a filter that passes on only messages that would have been logged anyway.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from collectors.compiled.callers import add_callers
from collectors.guard import Guard

RecordHandler: TypeAlias = Callable[[Mapping[str, Any], "str | None"], None]
MessageHandler: TypeAlias = Callable[[str, "str | None"], None]

TRACE_LOGGER: Final = "torch.__trace"
"""torch._logging._internal.trace_log, torch 2.1 to 2.13."""

_MODULES: Final = (
    "torch._inductor.compile_fx",
    "torch._inductor.scheduler",
    "torch._inductor.output_code",
    "torch._inductor.codecache",
    "torch._inductor.cudagraph_utils",
    "torch._inductor.cudagraph_trees",
)
"""Modules that log to ``cudagraphs`` (torch 2.6 to 2.13)."""

_LIMIT_LOGGER: Final = "torch._dynamo.convert_frame"
"""Logs functions that reached the recompile limit."""


class CompileListener:
    """Log handler and filters from :meth:`start` to :meth:`stop`; errors go to ``guard``."""

    def __init__(self, on_record: RecordHandler, on_message: MessageHandler, guard: Guard) -> None:
        self._on_message = on_message
        self._guard = guard
        self._handler = _TraceHandler(on_record, self._attach_new_loggers, guard)
        self._filters: dict[str, _MessageFilter] = {}

    def start(self) -> None:
        """Start listening; modules imported later are included."""
        logging.getLogger(TRACE_LOGGER).addHandler(self._handler)
        self._attach_filter(_LIMIT_LOGGER, lower=False)
        self._attach_new_loggers()

    def stop(self) -> None:
        """Restore all loggers."""
        logging.getLogger(TRACE_LOGGER).removeHandler(self._handler)
        for name, passing in self._filters.items():
            logger = logging.getLogger(name)
            logger.removeFilter(passing)
            if passing.original_level is not None and logger.level == logging.DEBUG:
                logger.setLevel(passing.original_level)
        self._filters.clear()

    def _attach_new_loggers(self) -> None:
        """Attach to loggers of newly imported modules; torch sets their levels on import."""
        for module in _MODULES:
            if module in sys.modules:
                self._attach_filter(f"{module}.__cudagraphs", lower=True)

    def _attach_filter(self, name: str, *, lower: bool) -> None:
        logger = logging.getLogger(name)
        passing = self._filters.get(name)
        if passing is None:
            passing = self._filters[name] = _MessageFilter(logger, self._on_message, self._guard)
            logger.addFilter(passing)
        if lower and logger.level != logging.DEBUG:
            # The program's own level, set now or by a later call of torch._logging.set_logs.
            passing.original_level = logger.level
            logger.setLevel(logging.DEBUG)


class _TraceHandler(logging.Handler):
    """Handles structured trace records; ignores its own in a forked child."""

    def __init__(self, on_record: RecordHandler, listen: Callable[[], None], guard: Guard) -> None:
        super().__init__()
        self._on_record = on_record
        self._listen = listen
        self._guard = guard

    def emit(self, record: logging.LogRecord) -> None:
        with self._guard:
            metadata = getattr(record, "metadata", None)
            if isinstance(metadata, dict):
                payload = getattr(record, "payload", None)
                with_frames = add_callers(metadata, sys._getframe())
                self._on_record(with_frames, payload if isinstance(payload, str) else None)
            self._listen()


class _MessageFilter(logging.Filter):
    """Handles each message of a logger and passes on those at its original level."""

    def __init__(self, logger: logging.Logger, on_message: MessageHandler, guard: Guard) -> None:
        super().__init__()
        self.original_level: int | None = None
        self._logger = logger
        self._on_message = on_message
        self._guard = guard

    def filter(self, record: logging.LogRecord) -> bool:
        with self._guard:
            self._on_message(record.getMessage(), _get_compile_id())
        if self.original_level is None:
            return True
        level, parent = self.original_level, self._logger.parent
        if level == logging.NOTSET and parent is not None:
            level = parent.getEffectiveLevel()
        return record.levelno >= level


def _get_compile_id() -> str | None:
    guards = sys.modules.get("torch._guards")
    context = getattr(guards, "CompileContext", None)
    current = getattr(context, "current_compile_id", None)
    frame = None if current is None else current()
    return None if frame is None else str(frame)
