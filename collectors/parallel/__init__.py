"""A step captured on several streams, with only the dependencies that its data needs."""

from typing import Final

MEMORY_FACTOR: Final = 1.5
"""Of the memory of a plain capture, what a plan may take unless told otherwise."""
