"""Record a program from inside: :func:`record`, :func:`step`, and the hook of ``graphviz-dash
collect``.

Imports torch only for recording.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from graphviz_dash.bundle.staging import Staging
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError
from graphviz_dash.model.recording import WINDOW_PAUSE_S

if TYPE_CHECKING:
    from collectors.program.process_watcher import ProcessWatcher

StrPath: TypeAlias = str | os.PathLike[str]

HOOK: Final = "collectors.program.session:begin"
SKIP: Final = 30
"""Default number of steps before the traced window; each is timed."""
STEPS: Final = 10
"""Default number of steps in the traced window."""

_active: ProcessWatcher | None = None
_open_label: Callable[[str], AbstractContextManager[None]] | None = None
_NOTHING: Final = nullcontext()


def step() -> None:
    """Mark the end of a step; does nothing if nothing records.

    If a program calls it, the recorder looks for no other steps.
    """
    if _active is not None:
        _active.record_step()


def label(
    name: str, *, real: int | None = None, phase: str | None = None, **key: int
) -> AbstractContextManager[None]:
    """Label a block of the program as one step of a graph family.

    Use the same label for the eager warm-up, the capture, the replay and the fallback of a step.
    The overhead is negligible if nothing records::

        with collectors.label("decode", real=len(requests), batch=padded):
            graphs[padded].replay()

    Args:
        name: Family; graphs of one family differ only by their key.
        real: Requested size, before padding.
        phase: ``prefill``, ``decode`` or ``mixed``.
        key: Numbers by which the graphs of a family differ; the first is the padded size.
    """
    if _open_label is not None:
        return _open_label(" ".join((name, *(f"{word}={number}" for word, number in key.items()))))
    scope = _active.label((name, real, phase, *key.items())) if _active is not None else None
    return scope if scope is not None else _NOTHING


def follow_labels(open_label: Callable[[str], AbstractContextManager[None]]) -> None:
    """Open a block with the text of each label, for the life of the process."""
    global _open_label  # noqa: PLW0603  # as _active
    _open_label = open_label


@contextmanager
def record(
    output: StrPath,
    name: str = "recorded",
    skip: int = SKIP,
    steps: int = STEPS,
    window_pause: float = WINDOW_PAUSE_S,
) -> Iterator[None]:
    """Record captures, replays and steps inside the block, and write the run bundle
    ``output/name``::

        with collectors.record("runs/train"):
            for batch in loader:
                train_step(batch)
                collectors.step()

    A forked child that leaves the block writes nothing.

    Args:
        output: Folder of the experiment; created if needed.
        name: Name of the run in the experiment.
        skip: Steps before the traced window; counting restarts after each capture.
        steps: Steps in the traced window, each synchronized; 0 for none.
        window_pause: Longest estimated pause for the window, in seconds. It closes before.

    Raises:
        InputError: A run of that name exists.
        GraphvizDashError: This process is already recorded, or the bundle cannot be written.
        MissingRequirementError: torch finds no CUDA device.
    """
    global _active  # noqa: PLW0603  # one watcher in a process: torch has one CUDAGraph
    import torch

    from collectors.guard import Guard
    from collectors.program.bundle import Program, resolve_target, write_run
    from collectors.program.files import ProcessFolder, Settings
    from collectors.program.process_watcher import ProcessWatcher

    if _active is not None:
        raise GraphvizDashError("This process is recorded already.")
    if not torch.cuda.is_available():
        raise MissingRequirementError("Recording needs a CUDA GPU, and torch sees none.")
    target = resolve_target(Path(output), name)
    target.parent.mkdir(parents=True, exist_ok=True)
    pid = os.getpid()
    with Staging(target.parent, "record") as staging:
        folder = ProcessFolder(staging.path)
        settings = Settings(skip=skip, window=steps, window_pause_s=window_pause)
        watcher = ProcessWatcher(settings, folder)
        _watch_forks()

        def write() -> None:
            if os.getpid() == pid:
                program = Program(tuple(sys.argv), Path(sys.argv[0]).name, None)
                write_run(folder.path, target, program)

        def forget() -> None:
            global _active  # noqa: PLW0603  # as above
            _active = None

        def write_guarded() -> None:
            with Guard():
                write()

        with ExitStack() as failed:
            # The program's error takes precedence over errors of the recorder.
            failed.callback(write_guarded)
            with ExitStack() as end:
                end.callback(forget)
                end.enter_context(watcher.watch())
                _active = watcher
                yield
            failed.pop_all()
        write()


def begin() -> None:
    """Record this process until it ends, and forked children that capture. Called by the hook."""
    global _active  # noqa: PLW0603  # as above
    from collectors.program.files import ProcessFolder, Settings
    from collectors.program.launcher import get_scratch_folder, get_settings
    from collectors.program.process_watcher import ProcessWatcher

    if _active is not None:
        return
    import torch

    if torch.version.cuda is None:
        raise MissingRequirementError("this torch was not built for CUDA")
    scratch = get_scratch_folder()

    def follow() -> ProcessFolder:
        return ProcessFolder.create(scratch)

    def mind_end() -> None:
        _finish_at_exit(watcher)

    settings = msgspec.json.decode(get_settings(), type=Settings)
    watcher = ProcessWatcher(settings, ProcessFolder.create(scratch), follow, mind_end)
    # Until the process ends: threads may capture and replay meanwhile.
    watcher.start()
    _active = watcher
    _watch_forks()
    _finish_at_exit(watcher)


def _finish_at_exit(watcher: ProcessWatcher) -> None:
    """Finish ``watcher`` when this process ends, but not when a forked child ends.

    Called again in a process that multiprocessing has started: its end is known only then, and
    earlier registrations are dropped.
    """
    pid = os.getpid()

    def finish() -> None:
        if os.getpid() == pid:
            # Python stores the error that ended the program here after printing it.
            watcher.keep_error(getattr(sys, "last_value", None))
            watcher.finish()

    atexit.register(finish)
    processes = sys.modules.get("multiprocessing.process")
    util = sys.modules.get("multiprocessing.util")
    if processes is not None and util is not None and processes.parent_process() is not None:
        # multiprocessing ends its children without Python's exit; this is the last of its
        # finalizers.
        util.Finalize(None, finish, exitpriority=-(1 << 30))


_forks_minded = False


def _watch_forks() -> None:
    global _forks_minded  # noqa: PLW0603  # a registration cannot be taken back
    if not _forks_minded:
        from collectors.program import flusher

        _forks_minded = True
        os.register_at_fork(
            before=flusher.pause_before_fork,
            after_in_parent=flusher.resume_after_fork,
            after_in_child=flusher.clear_after_fork,
        )
        os.register_at_fork(after_in_child=_handle_fork)


def _handle_fork() -> None:
    if _active is not None:
        _active.reset_after_fork()
