"""Find out when torch creates the CUDA context of this process."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

import torch

from collectors.guard import HIDDEN_FRAME


def watch_initialization(
    prepare: Callable[[], None], handle: Callable[[int, int], None]
) -> Callable[[], None]:
    """Call ``prepare`` before torch's CUDA initialization and ``handle`` with its begin and end,
    once, in its thread.

    Returns a function that stops this. Does nothing if CUDA is initialized.
    """
    if torch.cuda.is_initialized():
        return lambda: None
    original = torch.cuda._lazy_init

    def initialize() -> None:
        if torch.cuda._lazy_init is initialize:
            prepare()
        begin = perf_counter_ns()
        with HIDDEN_FRAME:
            original()
        if torch.cuda._lazy_init is initialize and torch.cuda.is_initialized():
            stop()
            handle(begin, perf_counter_ns())

    def stop() -> None:
        if torch.cuda._lazy_init is initialize:
            torch.cuda._lazy_init = original

    torch.cuda._lazy_init = initialize
    return stop


def create_only_context() -> bool:
    """Create the context if there is one device. With several, the program may choose another one,
    and a context uses hundreds of MiB."""
    if torch.cuda.device_count() != 1:
        return False
    torch.cuda.mem_get_info()
    return True
