"""Call the CUDA driver through cuda-bindings."""

from __future__ import annotations

from typing import Any


class DriverError(RuntimeError):
    """A CUDA driver or runtime call returned an error.

    ``status`` is its name, such as CUDA_ERROR_NOT_SUPPORTED or cudaErrorNotSupported.
    """

    def __init__(self, function: str, status: str, code: int) -> None:
        super().__init__(f"{function} returned {status} ({code})")
        self.status = status


def call(function: Any, *arguments: Any) -> Any:
    """Call a cuda-bindings function and return its result without the status.

    Raises:
        DriverError: The status was not success.
    """
    status, *results = function(*arguments)
    if int(status) != 0:
        raise DriverError(function.__name__, status.name, int(status))
    return results[0] if len(results) == 1 else tuple(results)
