"""Resolution of paths, folders and fsspec addresses (s3://, gs://) to files and bundles."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct

from graphviz_dash.bundle.files import NOT_UTF8, check_utf8, is_utf8
from graphviz_dash.bundle.read import is_bundle
from graphviz_dash.bundle.schema import MANIFEST_FILE
from graphviz_dash.errors import InputError, MissingRequirementError, escape_control_characters

FILE_SCHEME: Final = "file://"
"""Prefix of a local path written as an address."""

_VERBOSE_LIBRARIES: Final = ("gcsfs", "s3fs")
"""They log a traceback per attempt; only the final error is reported."""

_EXTRAS: Final = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}


class Location(Struct, frozen=True):
    """Address of a file or a bundle's folder: a local path, or a URL with a protocol."""

    address: str
    is_bundle: bool = False
    problem: str | None = None
    """Reason for an unreadable folder, or None."""

    @property
    def is_remote(self) -> bool:
        """True outside this machine's file system."""
        return is_address(self.address)

    @property
    def name(self) -> str:
        """Last component of the address, usable as a file or folder name."""
        last = PurePosixPath(self.address).name
        return last if last not in ("", "..") else "unnamed"

    @property
    def parent(self) -> str:
        """Address without its last component."""
        return self.address.rpartition("/")[0]


def is_address(text: str) -> bool:
    """Test for a protocol, as in ``s3://bucket/folder``."""
    protocol, separator, _ = text.partition("://")
    return bool(separator) and protocol.replace("+", "").isalnum() and protocol != "file"


def find_locations(addresses: Sequence[str]) -> list[Location]:
    """Find the files and bundles at the given paths and addresses.

    A folder expands to all visible files in it, recursively; a folder with a manifest is one
    bundle. Unreadable subfolders are returned as ``unreadable`` locations.

    Raises:
        InputError: Not found or not readable, for example because of missing credentials.
        MissingRequirementError: The package for its protocol is not installed.
    """
    locations: list[Location] = []
    for text in addresses:
        found = list(
            _find_remote(text) if is_address(text) else _find_local(text.removeprefix(FILE_SCHEME))
        )
        if not found:
            raise InputError(text, "no files", "a file, or a folder with files")
        if found[0].problem and found[0].address == text.removeprefix(FILE_SCHEME):
            raise InputError(text, found[0].problem, "a readable file or folder")
        locations += found
    return list(dict.fromkeys(locations))


def _find_local(text: str) -> Iterator[Location]:
    path = Path(text)
    check_utf8(path)
    try:
        if path.is_dir():
            yield from _find_in_folder(path, text)
            return
        exists = path.exists()
    except OSError as error:
        raise InputError(text, _format_os_error(error), "a readable file or folder") from error
    if not exists:
        raise InputError(text, "no such file", "a file, a folder, or an address such as s3://...")
    yield Location(text)


def _find_in_folder(folder: Path, address: str) -> Iterator[Location]:
    try:
        bundle = is_bundle(folder)
        children = [] if bundle else sorted(folder.iterdir())
        kinds = [_classify_entry(child) for child in children]
    except OSError as error:
        yield Location(address, problem=_format_os_error(error))
        return
    if bundle:
        yield Location(address, is_bundle=True)
    for child, kind in zip(children, kinds, strict=True):
        if kind is not _Kind.OTHER and not is_utf8(child.name):
            yield Location(escape_control_characters(str(child)), problem=NOT_UTF8)
        elif kind is _Kind.FOLDER:
            yield from _find_in_folder(child, str(child))
        elif kind is _Kind.FILE:
            yield Location(str(child))


class _Kind(Enum):
    FILE = 1
    FOLDER = 2
    OTHER = 3


def _classify_entry(path: Path) -> _Kind:
    """Classify an entry of a folder. Hidden entries and links are skipped."""
    if path.name.startswith(".") or path.is_symlink():
        return _Kind.OTHER
    if path.is_dir():
        return _Kind.FOLDER
    return _Kind.FILE if path.is_file() else _Kind.OTHER


def _format_os_error(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _find_remote(address: str) -> Iterator[Location]:
    with _convert_errors(address):
        system, path = _open_file_system(address)
        if system.isfile(path):
            yield Location(address)
            return
        files = sorted(file for file in system.find(path) if not _is_skipped(file, path))
    protocol = address.partition("://")[0]
    bundles = {
        str(PurePosixPath(file).parent) for file in files if file.endswith(f"/{MANIFEST_FILE}")
    }
    inside = tuple(f"{bundle}/" for bundle in bundles)
    for bundle in sorted(bundles):
        yield Location(f"{protocol}://{bundle.lstrip('/')}", is_bundle=True)
    for file in files:
        if not file.startswith(inside):
            yield Location(f"{protocol}://{str(file).lstrip('/')}")


def _is_skipped(file: str, path: str) -> bool:
    """Return True for hidden files or folders (including ``..``), and empty placeholder objects
    with a trailing slash."""
    relative_path = file.removeprefix(path)
    return file.endswith("/") or any(part.startswith(".") for part in relative_path.split("/"))


def _open_file_system(address: str) -> tuple[Any, str]:
    import fsspec  # imports asyncio and codecs, which no local path needs

    protocol = address.partition("://")[0]
    for library in _VERBOSE_LIBRARIES:
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        advice = f"pip install 'graphviz-dash[{extra}]'" if extra else str(error)
        raise MissingRequirementError(f"{protocol}:// addresses require: {advice}") from error
    except ValueError as error:
        raise InputError(address, str(error), "an address supported by fsspec") from error
    except (TypeError, AttributeError, KeyError) as error:
        # Some protocols, such as reference://, need arguments that no address has.
        reason = f"a protocol that needs more than an address ({error})"
        raise InputError(address, reason, "an address such as s3://...") from error
    return system, path


@contextmanager
def _convert_errors(address: str) -> Iterator[None]:
    """Convert errors to a one-line InputError with the address."""
    try:
        yield
    except _get_error_types() as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, FileNotFoundError):
            reason = f"no such bucket, folder or file ({reason})"
        advice = next((text for pattern, text in _ERROR_ADVICE.items() if pattern in reason), "")
        raise InputError(address, reason, "a readable file or folder", advice) from error


_ERROR_ADVICE: Final = {
    "credentials": "Credentials come from the environment or the user's configuration (for s3:// "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `aws configure`; for gs:// "
    "GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`).",
    "Anonymous caller": "gs:// uses the account from GOOGLE_APPLICATION_CREDENTIALS or from "
    "`gcloud auth application-default login`.",
    "connect to the endpoint": "For a server other than Amazon's, set AWS_ENDPOINT_URL.",
}
_CLOUD_ERRORS: Final = {
    "botocore.exceptions": ("BotoCoreError", "ClientError", "HTTPClientError"),
    "google.auth.exceptions": ("GoogleAuthError",),
    "gcsfs.retry": ("HttpError",),
    "aiohttp": ("ClientError",),
}


def _get_error_types() -> tuple[type[Exception], ...]:
    """Return the exception types, including those of imported cloud libraries."""
    candidates = (
        getattr(sys.modules[module], name, None)
        for module, names in _CLOUD_ERRORS.items()
        if module in sys.modules
        for name in names
    )
    library_errors = (
        kind for kind in candidates if isinstance(kind, type) and issubclass(kind, Exception)
    )
    return (OSError, ValueError, *library_errors)


@contextmanager
def provide_local_copy(location: Location, scratch: Path) -> Iterator[Path]:
    """Provide ``location`` as a local path. Remote files are fetched into ``scratch`` and removed
    afterwards.

    Raises:
        InputError: The file cannot be fetched.
    """
    if not location.is_remote:
        yield Path(location.address)
        return
    target = scratch / location.name
    fetch(location.address, target, folder=location.is_bundle)
    try:
        yield target
    finally:
        if target.is_file():
            target.unlink()


def fetch(address: str, target: Path, *, folder: bool) -> None:
    """Copy a file, or a folder recursively, to ``target``.

    Raises:
        InputError: The address does not exist or is unreadable.
    """
    with _convert_errors(address):
        system, path = _open_file_system(address)
        if not folder:
            system.get_file(path, str(target))
            return
        top = target.resolve()
        for file in system.find(path):
            relative_path = PurePosixPath(file).relative_to(PurePosixPath(path.rstrip("/")))
            destination = (top / relative_path).resolve()
            if not destination.is_relative_to(top):
                raise InputError(address, f"a file at {relative_path}", "files inside the folder")
            destination.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(file, str(destination))
