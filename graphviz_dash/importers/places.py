"""Files by what a person types: a path, a folder, or an address that fsspec knows (s3://, gs://)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import fsspec

from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.bundle.schema import MANIFEST
from graphviz_dash.errors import InputError, MissingRequirementError

_TALKATIVE: Final = ("gcsfs", "s3fs")
"""Libraries that log a traceback for each of their tries, of which one line is told in the end."""

_EXTRAS: Final = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}


@dataclass(frozen=True)
class Place:
    """One file, or a run bundle's folder, by its address: a local path, or one with a protocol.
    ``bundle``: whether it is the folder of a bundle."""

    address: str
    bundle: bool = False

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
    protocol, found, _ = text.partition("://")
    return bool(found) and protocol.replace("+", "").isalnum() and protocol != "file"


def find_places(given: Sequence[str]) -> list[Place]:
    """The files and bundles behind what was given: a file is itself, a folder every visible file in
    it and below, where a folder with a manifest counts as one bundle.

    Raises:
        InputError: nothing there, or it cannot be listed: no credentials, no such bucket.
        MissingRequirementError: the package for its protocol is not installed.
    """
    found: list[Place] = []
    for one in given:
        places = list(_remote(one) if is_address(one) else _local(one.removeprefix("file://")))
        if not places:
            raise InputError(one, "no file in it", "a file, or a folder with files")
        found += places
    return list(dict.fromkeys(found))


def _local(text: str) -> Iterator[Place]:
    path = Path(text)
    if path.is_dir():
        yield from _below(path)
    elif path.exists():
        yield Place(text)
    else:
        raise InputError(text, "no such file", "a file, a folder, or an address such as s3://...")


def _below(folder: Path) -> Iterator[Place]:
    if is_bundle(folder):
        yield Place(str(folder), bundle=True)
        return
    with _told(str(folder)):
        children = sorted(folder.iterdir())
    for child in children:
        if child.name.startswith(".") or child.is_symlink():
            continue
        if child.is_dir():
            yield from _below(child)
        elif child.is_file():
            yield Place(str(child))


def _remote(address: str) -> Iterator[Place]:
    with _told(address):
        system, path = _system(address)
        if system.isfile(path):
            yield Place(address)
            return
        files = sorted(file for file in system.find(path) if not _passed(file, path))
    protocol = address.partition("://")[0]
    bundles = {str(PurePosixPath(file).parent) for file in files if file.endswith(f"/{MANIFEST}")}
    inside = tuple(f"{bundle}/" for bundle in bundles)
    for bundle in sorted(bundles):
        yield Place(f"{protocol}://{bundle.lstrip('/')}", bundle=True)
    for file in files:
        if not file.startswith(inside):
            yield Place(f"{protocol}://{str(file).lstrip('/')}")


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
def _told(address: str) -> Iterator[None]:
    """What a file system refuses, in one line with the address."""
    try:
        yield
    except _refusals() as error:
        found = str(error) or type(error).__name__
        if isinstance(error, FileNotFoundError):
            found = f"no such bucket, folder or file ({found})"
        advice = next((text for said, text in _ADVICE.items() if said in found), "")
        raise InputError(address, found, "a file or folder that can be read", advice) from error


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
    found = (
        getattr(sys.modules[module], name, None)
        for module, names in _REFUSALS.items()
        if module in sys.modules
        for name in names
    )
    own = (one for one in found if isinstance(one, type) and issubclass(one, Exception))
    return (OSError, ValueError, *own)


@contextmanager
def local_copy(place: Place, scratch: Path) -> Iterator[Path]:
    """The file or folder of ``place`` on this machine, fetched into ``scratch`` if it is not, and
    removed from there afterwards.

    Raises:
        InputError: it cannot be fetched.
    """
    if not place.remote:
        yield Path(place.address)
        return
    target = scratch / place.name
    fetch(place.address, target, folder=place.bundle)
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
    with _told(address):
        system, path = _system(address)
        if not folder:
            system.get_file(path, str(target))
            return
        top = target.resolve()
        for file in system.find(path):
            within = PurePosixPath(file).relative_to(PurePosixPath(path.rstrip("/")))
            place = (top / within).resolve()
            if not place.is_relative_to(top):
                raise InputError(address, f"a file at {within}", "files inside the folder")
            place.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(file, str(place))
