"""Callbacks that record a training: for Lightning and for transformers' Trainer.

The base classes are imported when a callback is made, so neither package is needed here.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from collectors.program import session
from collectors.program.session import SKIP, STEPS
from graphviz_dash.errors import MissingRequirementError

if TYPE_CHECKING:
    from collectors.program.session import StrPath


class _TrainingRecorder:
    """Records from :meth:`begin` to :meth:`end`, with a step after each batch."""

    def __init__(self, output: StrPath, name: str, skip: int, steps: int) -> None:
        self._arguments = (output, name, skip, steps)
        self._stack = ExitStack()

    def begin(self) -> None:
        self._stack.enter_context(session.record(*self._arguments))

    def end(self, error: BaseException | None = None) -> None:
        """Write the run; a second call does nothing."""
        stack, self._stack = self._stack, ExitStack()
        if error is None:
            stack.close()
        else:
            stack.__exit__(type(error), error, error.__traceback__)


def lightning_callback(
    output: StrPath, name: str = "recorded", skip: int = SKIP, steps: int = STEPS
) -> Any:
    """Return a Lightning callback that records ``Trainer.fit``, with one step for each batch::

        trainer = Trainer(callbacks=[collectors.lightning_callback("runs/x")])

    Args:
        output: Folder of the experiment; created if needed.
        name: Name of the run in the experiment.
        skip: Steps before the traced window.
        steps: Steps in the traced window; 0 for none.

    Raises:
        MissingRequirementError: Neither ``lightning`` nor ``pytorch_lightning`` is installed.
    """
    recorder = _TrainingRecorder(output, name, skip, steps)

    class RecordCallback(_import_lightning_base()):  # type: ignore[misc]
        def on_train_start(self, *_: object) -> None:
            recorder.begin()

        def on_train_batch_end(self, *_: object, **__: object) -> None:
            session.step()

        def on_train_end(self, *_: object) -> None:
            recorder.end()

        def on_exception(self, _trainer: object, _module: object, error: BaseException) -> None:
            recorder.end(error)

    return RecordCallback()


def trainer_callback(
    output: StrPath, name: str = "recorded", skip: int = SKIP, steps: int = STEPS
) -> Any:
    """Return a ``transformers.TrainerCallback`` that records ``Trainer.train``::

        trainer = Trainer(..., callbacks=[collectors.trainer_callback("runs/x")])

    Args:
        output: Folder of the experiment; created if needed.
        name: Name of the run in the experiment.
        skip: Steps before the traced window.
        steps: Steps in the traced window; 0 for none.

    Raises:
        MissingRequirementError: ``transformers`` is not installed.
    """
    recorder = _TrainingRecorder(output, name, skip, steps)

    class RecordCallback(_import_trainer_base()):  # type: ignore[misc]
        def on_train_begin(self, *_: object, **__: object) -> None:
            recorder.begin()

        def on_step_end(self, *_: object, **__: object) -> None:
            session.step()

        def on_train_end(self, *_: object, **__: object) -> None:
            recorder.end()

    return RecordCallback()


def _import_lightning_base() -> Any:
    # The package that the program itself uses, if both are installed.
    first = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
    for module in (first, "lightning.pytorch", "pytorch_lightning"):
        try:
            return __import__(module, fromlist=["Callback"]).Callback
        except ImportError:
            continue
    raise MissingRequirementError("A Lightning callback needs lightning or pytorch-lightning.")


def _import_trainer_base() -> Any:
    try:
        from transformers import TrainerCallback
    except ImportError as error:
        raise MissingRequirementError("A Trainer callback needs transformers.") from error
    return TrainerCallback
