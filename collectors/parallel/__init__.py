"""Capture a step on several streams with only the dependencies that its data needs."""

from typing import Final

MEMORY_FACTOR: Final = 1.5
"""Default memory limit of a plan, relative to a plain capture."""
