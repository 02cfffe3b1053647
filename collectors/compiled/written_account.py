"""Record torch.compile during a step and store the result even if the step fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from collectors.compiled.account import CompileAccount, compile_account
from collectors.process.results import write_result
from graphviz_dash.bundle import parts


@contextmanager
def written_account(out: Path) -> Iterator[CompileAccount]:
    """Record compilations and write them to ``out`` on exit, even after an error."""
    try:
        with compile_account() as account, ExitStack() as failed:
            # If the step fails, the bundle contains none of its graphs.
            failed.callback(account.read, lambda _: None)
            yield account
            failed.pop_all()
    finally:
        compilation = account.result()
        if compilation is not None:
            write_result(parts.COMPILATION, compilation, out)
