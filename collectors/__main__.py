"""Run ``collect``, alone or as one rank under torchrun.

torchrun --nproc-per-node 2 -m collectors --workload tp-transformer -o tp-transformer.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

import click

from collectors.collection.cli import collect
from graphviz_dash.errors import GraphvizDashError, escape_control_characters

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Each error is one line on stderr."""
    # torchrun ends the remaining ranks with SIGTERM: workers and scratch files must go too.
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        result = collect.main(
            args=arguments, prog_name="python -m collectors", standalone_mode=False
        )
    except GraphvizDashError as error:
        return _print_error(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _print_error("interrupted", _INTERRUPTED)
    return result if isinstance(result, int) else 0


def _raise_interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print_error(text: str, code: int) -> int:
    click.echo(f"Error: {escape_control_characters(text)}", err=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
