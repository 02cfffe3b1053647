"""Calls of the CUDA driver through cuda-bindings."""

from __future__ import annotations

from typing import Any


class DriverError(RuntimeError):
    """A call of the CUDA driver or runtime returned something other than success.

    ``status`` is the status by name, such as CUDA_ERROR_NOT_SUPPORTED or cudaErrorNotSupported.
    """

    def __init__(self, function: str, status: str, code: int) -> None:
        super().__init__(f"{function} returned {status} ({code})")
        self.status = status


def call(function: Any, *arguments: Any) -> Any:
    """Calls a cuda-bindings function; its result without the status.

    Raises:
        DriverError: the status was not success; the message names function and status.
    """
    status, *results = function(*arguments)
    if int(status) != 0:
        raise DriverError(function.__name__, status.name, int(status))
    return results[0] if len(results) == 1 else tuple(results)
