"""Record torch.compile during a step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from collectors.compiled.account import CompileRecorder, record_compilation
from collectors.process.results import write_result
from graphviz_dash.bundle import parts


@contextmanager
def save_compilation(out: Path) -> Iterator[CompileRecorder]:
    """Record compilations and write them to ``out`` on exit, even after an error."""
    try:
        with record_compilation() as account, ExitStack() as failed:
            # If the step fails, the bundle contains none of its graphs.
            failed.callback(account.read_trees, lambda _: None)
            yield account
            failed.pop_all()
    finally:
        compilation = account.get_result()
        if compilation is not None:
            write_result(parts.COMPILATION, compilation, out)
