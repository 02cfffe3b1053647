"""Files by what a person types: a path, a folder, or an address that fsspec knows (s3://, gs://)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any, Final

import fsspec
from msgspec import Struct

from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.bundle.schema import MANIFEST
from graphviz_dash.errors import InputError, MissingRequirementError

_TALKATIVE: Final = ("gcsfs", "s3fs")
"""Libraries that log a traceback for each of their tries, of which one line is told in the end."""

_EXTRAS: Final = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}


class Location(Struct, frozen=True):
    """One file, or a run bundle's folder, by its address: a local path, or one with a protocol."""

    address: str
    bundle: bool = False
    """Whether it is the folder of a bundle."""
    unreadable: str | None = None
    """Why the folder at this address could not be listed; None for what can be read."""

    @property
    def remote(self) -> bool:
        """Whether it lies anywhere but in this machine's file system."""
        return is_address(self.address)

    @property
    def name(self) -> str:
        """The last part of the address, fit to be a file's or folder's name."""
        last = PurePosixPath(self.address).name
        return last if last not in ("", "..") else "unnamed"

    @property
    def folder(self) -> str:
        """All but the last part."""
        return self.address.rpartition("/")[0]


def is_address(text: str) -> bool:
    """Whether ``text`` has a protocol, as in ``s3://bucket/folder``."""
    protocol, separator, _ = text.partition("://")
    return bool(separator) and protocol.replace("+", "").isalnum() and protocol != "file"


def find_locations(given: Sequence[str]) -> list[Location]:
    """The files and bundles behind what was given: a file is itself, a folder every visible file in
    it and below, where a folder with a manifest counts as one bundle. A folder below that cannot be
    listed is a location that is ``unreadable``.

    Raises:
        InputError: nothing there, or it cannot be listed: no credentials, no such bucket.
        MissingRequirementError: the package for its protocol is not installed.
    """
    locations: list[Location] = []
    for text in given:
        below = list(_remote(text) if is_address(text) else _local(text.removeprefix("file://")))
        if not below:
            raise InputError(text, "no file in it", "a file, or a folder with files")
        if below[0].unreadable and below[0].address == text.removeprefix("file://"):
            raise InputError(text, below[0].unreadable, "a file or folder that can be read")
        locations += below
    return list(dict.fromkeys(locations))


def _local(text: str) -> Iterator[Location]:
    path = Path(text)
    try:
        if path.is_dir():
            yield from _below(path, text)
            return
        exists = path.exists()
    except OSError as error:
        raise InputError(text, _refusal(error), "a file or folder that can be read") from error
    if not exists:
        raise InputError(text, "no such file", "a file, a folder, or an address such as s3://...")
    yield Location(text)


def _below(folder: Path, address: str) -> Iterator[Location]:
    try:
        bundle = is_bundle(folder)
        children = [] if bundle else sorted(folder.iterdir())
        kinds = [_kind(child) for child in children]
    except OSError as error:
        yield Location(address, unreadable=_refusal(error))
        return
    if bundle:
        yield Location(address, bundle=True)
    for child, kind in zip(children, kinds, strict=True):
        if kind is _Kind.FOLDER:
            yield from _below(child, str(child))
        elif kind is _Kind.FILE:
            yield Location(str(child))


class _Kind(Enum):
    FILE = 1
    FOLDER = 2
    OTHER = 3


def _kind(path: Path) -> _Kind:
    """What an entry of a folder is; hidden ones and links are passed over."""
    if path.name.startswith(".") or path.is_symlink():
        return _Kind.OTHER
    if path.is_dir():
        return _Kind.FOLDER
    return _Kind.FILE if path.is_file() else _Kind.OTHER


def _refusal(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _remote(address: str) -> Iterator[Location]:
    with _refusals_reported(address):
        system, path = _system(address)
        if system.isfile(path):
            yield Location(address)
            return
        files = sorted(file for file in system.find(path) if not _passed(file, path))
    protocol = address.partition("://")[0]
    bundles = {str(PurePosixPath(file).parent) for file in files if file.endswith(f"/{MANIFEST}")}
    inside = tuple(f"{bundle}/" for bundle in bundles)
    for bundle in sorted(bundles):
        yield Location(f"{protocol}://{bundle.lstrip('/')}", bundle=True)
    for file in files:
        if not file.startswith(inside):
            yield Location(f"{protocol}://{str(file).lstrip('/')}")


def _passed(file: str, path: str) -> bool:
    """Whether a file below ``path`` is passed over: it or a folder on its way is hidden (``..``
    among them), or it is what consoles keep for a folder, an empty object with a slash at its end.
    """
    within = file.removeprefix(path)
    return file.endswith("/") or any(part.startswith(".") for part in within.split("/"))


def _system(address: str) -> tuple[Any, str]:
    protocol = address.partition("://")[0]
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        advice = f"pip install 'graphviz-dash[{extra}]'" if extra else str(error)
        raise MissingRequirementError(f"Addresses with {protocol}:// need: {advice}") from error
    except ValueError as error:
        raise InputError(address, str(error), "an address that fsspec knows") from error
    return system, path


@contextmanager
def _refusals_reported(address: str) -> Iterator[None]:
    """What a file system refuses, in one line with the address."""
    try:
        yield
    except _refusals() as error:
        actual = str(error) or type(error).__name__
        if isinstance(error, FileNotFoundError):
            actual = f"no such bucket, folder or file ({actual})"
        advice = next((text for said, text in _ADVICE.items() if said in actual), "")
        raise InputError(address, actual, "a file or folder that can be read", advice) from error


_ADVICE: Final = {
    "credentials": "Its library looks for them in the environment and in the user's configuration "
    "(for s3:// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `aws configure`; for gs:// "
    "GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`).",
    "Anonymous caller": "gs:// reads as who GOOGLE_APPLICATION_CREDENTIALS or `gcloud auth "
    "application-default login` say.",
    "connect to the endpoint": "For a server other than Amazon's, AWS_ENDPOINT_URL is its address.",
}
_REFUSALS: Final = {
    "botocore.exceptions": ("BotoCoreError", "ClientError", "HTTPClientError"),
    "google.auth.exceptions": ("GoogleAuthError",),
    "gcsfs.retry": ("HttpError",),
    "aiohttp": ("ClientError",),
}


def _refusals() -> tuple[type[Exception], ...]:
    """What file systems raise: of the cloud libraries those that somebody imported."""
    candidates = (
        getattr(sys.modules[module], name, None)
        for module, names in _REFUSALS.items()
        if module in sys.modules
        for name in names
    )
    own = (kind for kind in candidates if isinstance(kind, type) and issubclass(kind, Exception))
    return (OSError, ValueError, *own)


@contextmanager
def local_copy(location: Location, scratch: Path) -> Iterator[Path]:
    """``location`` on this machine, fetched into ``scratch`` if it lies elsewhere, and removed from
    there afterwards.

    Raises:
        InputError: it cannot be fetched.
    """
    if not location.remote:
        yield Path(location.address)
        return
    target = scratch / location.name
    fetch(location.address, target, folder=location.bundle)
    try:
        yield target
    finally:
        if target.is_file():
            target.unlink()


def fetch(address: str, target: Path, *, folder: bool) -> None:
    """Copies a file, or a folder with all below it, to ``target``.

    Raises:
        InputError: it is not there, or cannot be read.
    """
    with _refusals_reported(address):
        system, path = _system(address)
        if not folder:
            system.get_file(path, str(target))
            return
        top = target.resolve()
        for file in system.find(path):
            within = PurePosixPath(file).relative_to(PurePosixPath(path.rstrip("/")))
            copy = (top / within).resolve()
            if not copy.is_relative_to(top):
                raise InputError(address, f"a file at {within}", "files inside the folder")
            copy.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(file, str(copy))
