"""What torch.compile tells of a step, kept for the collector however the step ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from collectors.compiled.account import CompileAccount, compile_account
from collectors.process.results import write_result
from graphviz_dash.bundle import parts


@contextmanager
def written_account(out: Path) -> Iterator[CompileAccount]:
    """An account of what is compiled within it, which is in ``out`` at its end, however it ends:
    what broke the graph is wanted most where the step failed."""
    try:
        with compile_account() as account, ExitStack() as failed:
            # Where the step fails, none of its graphs is in a bundle.
            failed.callback(account.read, lambda _: None)
            yield account
            failed.pop_all()
    finally:
        compilation = account.result()
        if compilation is not None:
            write_result(parts.COMPILATION, compilation, out)
