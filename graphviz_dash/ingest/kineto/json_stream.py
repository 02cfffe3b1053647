"""Streaming decoder of one large array inside a JSON document.

Pieces end where the text looks like ``}, {"``. A cut inside a string or a nested value leaves a
quote or bracket open, so a wrong cut never decodes, and the previous one is tried.

A damaged document is read up to its last complete element.

Unescaped backslashes, as in paths of old torch on Windows, are accepted (``escapes.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.byte_stream import ByteStream, Damage
from graphviz_dash.ingest.kineto.escapes import decode_text, hide_invalid_escapes
from graphviz_dash.ingest.limits import Limits

T = TypeVar("T")

_CUT = re.compile(rb'}(?=\s*,\s*{\s*["}])')
_SEPARATOR = re.compile(rb"\s*,\s*")
_ARRAY_END = re.compile(rb"}\s*\]")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{}]', re.DOTALL)
_VALUE = re.compile(rb"\s*:\s*(\S)")
_SPACE = b" \t\r\n"
_CONTROL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f]")
_BOM = b"\xef\xbb\xbf"
_IMPORT_ADVICE = "Import an Nsight Systems report first: graphviz-dash import FILE -o FOLDER."
_WINDOWS = (4 << 10, 64 << 10)  # windows at the end of a piece that are searched for cuts
_MAX_CUTS = 6  # maximum cuts to try, each at the cost of decoding a piece
_MAX_WORD_LENGTH = 400  # maximum length of a number or word that the end of a chunk may cut
_MAX_ENDS = 64  # maximum array ends to try; each "} ]" in the fields after the array counts

Decode = Callable[[bytes], list[T]]
STRICT_ERRORS = (msgspec.DecodeError, UnicodeDecodeError)
LENIENT_ERRORS = (ValueError,)
"""Exceptions of a lenient decoder from the standard library (JSONDecodeError is one)."""


class ArrayReader(Generic[T]):
    """Reads the array under the top-level ``key`` of the document in ``stream``.

    A document can also be the array itself, without fields (``is_bare_array``).

    ``strict`` decodes most pieces and raises :data:`STRICT_ERRORS`; ``lenient`` decodes pieces that
    ``strict`` rejects at every cut.

    ``span`` is the byte range of the last piece in the decompressed document. After iteration,
    ``fields`` contains the other top-level fields. ``damage`` describes why the document was not
    read to its end, and ``read_bytes`` is the size read. ``repaired`` is true if the text contained
    control characters or invalid UTF-8.

    If set, ``hand_over`` is called with each likely piece. If it returns true, the callee decodes
    and validates the piece. If a piece is wrong, later results of this reader are invalid.
    """

    def __init__(
        self, stream: ByteStream, key: str, strict: Decode[T], lenient: Decode[T], limits: Limits
    ) -> None:
        self.fields: dict[str, Any] = {}
        self._stream = stream
        self._path: Path = stream.path
        self._key = key
        self._strict = strict
        self._lenient = lenient
        self._limits = limits
        self.damage: Damage | None = None
        self.repaired = False
        self.span = (0, 0)
        self.hand_over: Callable[[memoryview], bool] | None = None
        self._buffer = b""
        self._position = 0  # bytes of the document before self._buffer
        self.is_bare_array = False

    @property
    def read_bytes(self) -> int:
        """Decompressed bytes of the document read so far."""
        return self._position

    def __iter__(self) -> Iterator[list[T] | None]:
        """Yield the elements piece by piece, and None for pieces handed over.

        Raises:
            InputError: No such array, a document damaged before it, or too large an element.
        """
        try:
            yield from self._iter_array()
        except RecursionError as error:
            description = "JSON nested too deeply to be decoded"
            raise self._limits.build_error(self._path, "nesting", description) from error

    def _iter_array(self) -> Iterator[list[T] | None]:
        try:
            self._buffer = self._read_to_array()
        except _DamagedError as error:
            raise self.build_error(self._stream.damage or error.damage) from error
        try:
            yield from self._iter_pieces()
            last = self._decode_last(self._buffer)
            self.span = (self._position, self._position + len(self._buffer))
            self._position += len(self._buffer)
            self.damage = self._stream.damage
        except _DamagedError as error:
            self.damage = self._stream.damage or error.damage
            last = self._recover_elements()
        yield last

    def build_error(self, damage: Damage) -> InputError:
        """Build the error for a document without a usable array."""
        advice = _TRUNCATION_ADVICE if damage.is_truncated else _DAMAGE_ADVICE
        return InputError(self._path, damage.description, "a complete JSON document", advice)

    def _iter_pieces(self) -> Iterator[list[T] | None]:
        requested = 0
        while self._read_until(requested):
            piece = self._hand_over_piece(self._buffer) or self._decode_piece(self._buffer)
            if piece is None:
                # One long element, or damage: try again with twice the data, so that the total work
                # stays proportional to the input.
                if len(self._buffer) > self._limits.event_bytes:
                    raise self._build_length_error()
                requested = 2 * len(self._buffer)
                continue
            items, next_start = piece
            self.span = (self._position, self._position + next_start)
            self._position += next_start
            self._buffer = self._buffer[next_start:]
            requested = 0
            yield items

    def _read_until(self, requested: int) -> bool:
        """Read until the buffer has ``requested`` bytes. False if the document ends first.

        Joins blocks once instead of copying the buffer for each.
        """
        blocks = [self._buffer]
        length = len(self._buffer)
        try:
            while data := self._stream.read():
                blocks.append(data)
                length += len(data)
                if length >= requested:
                    return True
            return False
        finally:
            self._buffer = b"".join(blocks)

    def _hand_over_piece(self, buffer: bytes) -> tuple[None, int] | None:
        """Hand over a piece and return the next element's position. None if refused."""
        if self.hand_over is None:
            return None
        near = _find_near_cuts(buffer)
        if not near or not self.hand_over(memoryview(buffer)[: near[0]]):
            return None
        return None, _find_next_element(buffer, near[0])

    def _recover_elements(self) -> list[T]:
        """Recover the complete elements before the damage, and fields if the array ended."""
        # latin-1 keeps all positions, and JSON's own characters are ASCII.
        text = hide_invalid_escapes(self._buffer.decode("latin-1"))
        end, closed = _find_complete_elements(text)
        items = self._decode_recovered(end)
        if closed is not None and (items or not end):
            self._add_fields(_parse_complete_fields(text, closed))
        self.span = (self._position, self._position + end)
        self._position += end if items else 0
        return items

    def _decode_recovered(self, end: int) -> list[T]:
        if end == 0:
            return []
        items = self._decode_strictly(self._buffer, end)
        return items or self._decode_leniently(self._buffer, end) or []

    def _read_to_array(self) -> bytes:
        """Read up to the first element and return the text after the array's bracket."""
        buffer = self._stream.read()
        if buffer.startswith(_BOM):
            buffer = buffer[len(_BOM) :]
            self._position = len(_BOM)
        while not buffer.strip(_SPACE):
            data = self._stream.read()
            if not data and self._stream.damage:
                raise _DamagedError(self._stream.damage)
            if not data:
                raise InputError(self._path, "an empty file", "a Kineto trace")
            self._position += len(buffer)
            buffer = data
        first = buffer.lstrip(_SPACE)[:1]
        if first == b"[":
            self.is_bare_array = True
            array_start = buffer.index(b"[") + 1
            self._position += array_start
            return buffer[array_start:]
        if first != b"{":
            start = buffer.lstrip(_SPACE)[:16]
            raise InputError(
                self._path,
                f"not a JSON object: it starts with {start!r}",
                "a Kineto trace, a JSON object with an array traceEvents",
                _IMPORT_ADVICE if start.startswith(b"SQLite format 3") else "",
            )
        return self._scan_fields(buffer)

    def _scan_fields(self, buffer: bytes) -> bytes:
        depth = 0
        position = 0
        requested = f'"{self._key}"'.encode()
        while True:
            resume_at = len(buffer)
            for token in _TOKEN.finditer(buffer, position):
                text = token[0]
                start = token.start()
                if text == b'"':  # a string that continues after the buffer
                    resume_at = start
                    break
                if text in (b"{", b"["):
                    depth += 1
                    if depth > self._limits.nesting:
                        description = f"JSON nested more than {self._limits.nesting} deep"
                        raise self._limits.build_error(self._path, "nesting", description)
                elif text in (b"}", b"]"):
                    depth -= 1
                    if depth == 0:
                        raise self._build_no_array_error(buffer[: token.end()])
                elif depth == 1 and text == requested:
                    value = _VALUE.match(buffer, token.end())
                    if value is None and not buffer[token.end() :].strip(_SPACE + b":"):
                        resume_at = start  # the value has not been read yet
                        break
                    if value is not None:
                        return self._open_array(buffer, start, value)
            if len(buffer) > self._limits.event_bytes:
                raise self._build_length_error()
            more = self._stream.read(max(1, len(buffer)))
            if not more:
                raise self._build_damage_error(buffer, "")
            position = resume_at
            buffer += more

    def _open_array(self, buffer: bytes, key_at: int, value: re.Match[bytes]) -> bytes:
        if value[1] != b"[":
            raise InputError(
                self._path,
                f"{self._key} is not an array but starts with {value[1]!r}",
                f"an array {self._key}",
            )
        head = buffer[:key_at].rstrip(_SPACE).removesuffix(b",") + b"}"
        try:
            self._add_fields(_parse_object(head))
        except LENIENT_ERRORS as error:
            raise self._build_damage_error(buffer, "") from error
        self._position += value.end()
        return buffer[value.end() :]

    def _decode_piece(self, buffer: bytes) -> tuple[list[T], int] | None:
        """Decode the elements up to the last valid cut; also return the next position.

        None if ``buffer`` has no valid cut yet, or the array ends in it.
        """
        near = _find_near_cuts(buffer)
        for cut in near:
            items = self._decode_strictly(buffer, cut)
            if items is not None:
                return items, _find_next_element(buffer, cut)
        # The text contains NaN or similar, or all these cuts are inside one element.
        for cut in chain(near[:1], _scan_cuts(buffer)):
            items = self._decode_strictly(buffer, cut)
            if items is None:
                items = self._decode_leniently(buffer, cut)
            if items is not None:
                return items, _find_next_element(buffer, cut)
        self._check_prefix(buffer)
        return None

    def _decode_strictly(self, buffer: bytes, cut: int) -> list[T] | None:
        try:
            items = self._strict(_close_array(buffer, cut))
        except STRICT_ERRORS:
            return None
        self._check_encoding(buffer, cut)
        return items

    def _check_encoding(self, buffer: bytes, end: int) -> None:
        """Record invalid UTF-8, which strict decoders ignore in skipped values."""
        if not self.repaired and not buffer.isascii():
            try:
                buffer[:end].decode()
            except UnicodeDecodeError:
                self.repaired = True

    def _decode_leniently(self, buffer: bytes, cut: int) -> list[T] | None:
        try:
            items = self._lenient(_close_array(buffer, cut))
        except ValueError:
            return None
        self._check_characters(buffer, cut)
        return items

    def _check_characters(self, buffer: bytes, end: int) -> None:
        self._check_encoding(buffer, end)
        self.repaired = self.repaired or _CONTROL.search(buffer, 0, end) is not None

    def _check_prefix(self, buffer: bytes) -> None:
        """Raise _DamagedError if ``buffer`` is damaged and not only incomplete."""
        text = "[" + hide_invalid_escapes(buffer.decode("utf-8", "replace"))
        try:
            json.JSONDecoder(strict=False).raw_decode(text)
        except json.JSONDecodeError as error:
            # Incomplete text fails at its end or at an open string; a truncated word or number
            # fails at its start.
            open_string = error.msg.startswith("Unterminated string")
            if not open_string and len(text[error.pos :].strip()) > _MAX_WORD_LENGTH:
                raise self._build_damage_error(buffer, "[") from error
        except ValueError as error:  # a number of thousands of digits
            raise self._build_damage_error(buffer, "[") from error

    def _decode_last(self, buffer: bytes) -> list[T]:
        empty = buffer.lstrip(_SPACE).startswith(b"]")
        ends = (
            [buffer.index(b"]") + 1]
            if empty
            else [match.end() for match in _ARRAY_END.finditer(buffer)][: -_MAX_ENDS - 1 : -1]
        )
        for end in ends:
            fields = self._parse_tail(buffer[end:])
            if fields is None:
                continue
            try:
                items = self._strict(b"[" + buffer[:end])
            except STRICT_ERRORS:
                continue
            self._add_fields(fields)
            self._check_characters(buffer, len(buffer))
            return items
        return self._decode_last_leniently(buffer)

    def _decode_last_leniently(self, buffer: bytes) -> list[T]:
        text = "[" + buffer.decode("utf-8", "replace")
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(hide_invalid_escapes(text))
        except ValueError as error:
            raise self._build_damage_error(buffer, "[") from error
        tail = text[end:]
        fields = self._parse_tail(tail.encode())
        if fields is None:
            raise self._build_tail_error(tail, self._position + len(text[1:end].encode()))
        items = self._lenient(text[:end].encode())
        self._add_fields(fields)
        self._check_characters(buffer, len(buffer))
        return items

    def _parse_tail(self, tail: bytes) -> dict[str, Any] | None:
        """Parse the fields after the array. None if invalid."""
        text = tail.strip(_SPACE)
        if self.is_bare_array:
            return None if text else {}
        if text[:1] == b",":
            text = text[1:]
        elif text != b"}":
            return None
        try:
            parsed = _parse_object(b"{" + text)
        except LENIENT_ERRORS:
            return None
        return parsed

    def _add_fields(self, fields: dict[str, Any]) -> None:
        if self._key in fields:
            raise InputError(self._path, f"duplicate {self._key}", f"one array {self._key}")
        self.fields.update(fields)

    def _build_no_array_error(self, document: bytes) -> Exception:
        description = f"a JSON object without {self._key}"
        try:
            keys = list(_parse_object(document))
        except LENIENT_ERRORS:
            return self._build_damage_error(document, "")
        key_list = ", ".join(repr(key[:40]) for key in islice(keys, 5))
        description += f" (it has {key_list})" if key_list else " (it is empty)"
        return InputError(self._path, description, "a Kineto trace from torch.profiler")

    def _build_length_error(self) -> InputError:
        description = f"an event or field of more than {self._limits.event_bytes:,} bytes"
        return self._limits.build_error(self._path, "event_bytes", description)

    def _build_tail_error(self, tail: str, before: int) -> Exception:
        fields = tail.lstrip()
        if self.is_bare_array or fields[:1] not in (",", ""):
            extra_text = fields.removeprefix("}").lstrip()
            position = before + len(tail.encode()) - len(extra_text.encode())
            description = (
                f"text after the end of the JSON, at byte {position:,} ({extra_text[:24]!r})"
            )
            return _DamagedError(Damage(False, description))
        before += len(tail) - len(fields) + len(fields[:1])
        return self._build_damage_error(fields[1:].encode(), "{", before)

    def _build_damage_error(
        self, buffer: bytes, opening: str, before: int | None = None
    ) -> Exception:
        """Describe the problem with ``buffer``, which follows ``before`` bytes of the document.
        ``opening`` makes it the start of a document."""
        before = self._position if before is None else before
        text = opening + hide_invalid_escapes(buffer.decode("utf-8", "replace"))
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(text.lstrip())
        except json.JSONDecodeError as error:
            end, reason = error.pos, error.msg
        except ValueError:  # Python rejects such integers
            return _DamagedError(Damage(False, "a number of thousands of digits"))
        else:
            reason = "unexpected text"
        remainder = text.lstrip()[end:].strip()
        if _UNFINISHED.fullmatch(remainder) or reason.startswith("Unterminated string"):
            description = f"JSON ends unexpectedly after {before + len(buffer):,} bytes"
            return _DamagedError(Damage(True, description))
        position = before + len(text.lstrip()[:end].encode()) - len(opening)
        description = f"not JSON at byte {position:,} ({reason.lower()}, at {remainder[:24]!r})"
        return _DamagedError(Damage(False, description))


# Remainder of a number, word or escape at the end of a truncated file.
_UNFINISHED = re.compile(
    r"(-?|\.|[eE][+-]?|tr?u?|fa?l?s?|nu?l?|Na?|-?I[infty]*|u[\da-fA-F]{0,3})", re.ASCII
)


class _DamagedError(Exception):
    """The document is unreadable from this position on."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(damage.description)
        self.damage = damage


_TRUNCATION_ADVICE = (
    "The trace was truncated while it was written or copied. Record or copy it again."
)
_DAMAGE_ADVICE = "The trace was changed after it was written. Record or copy it again."
_DECODER = json.JSONDecoder(strict=False)


def _skip_space(text: str, at: int) -> int | None:
    """Return the next position after white space. None at the end."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at if at < len(text) else None


def iter_element_spans(piece: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each element in ``piece``, a part of an array. Ends at the array's end
    or at invalid JSON."""
    text = hide_invalid_escapes(piece.decode("latin-1"))
    position = _skip_space(text, 0)
    while position is not None and text[position] != "]":
        try:
            _, end = _DECODER.raw_decode(text, position)
        except ValueError:
            return
        yield position, end
        position = _skip_space(text, end)
        if position is not None and text[position] == ",":
            position = _skip_space(text, position + 1)


def _find_complete_elements(text: str) -> tuple[int, int | None]:
    """Find the end of the last complete element and of the array, or None if it does not end.
    Raises RecursionError if nested too deeply."""
    end = 0
    position = _skip_space(text, 0)
    while position is not None and text[position] != "]":
        try:
            _, element_end = _DECODER.raw_decode(text, position)
        except ValueError:
            return end, None
        position = _skip_space(text, element_end)
        if position is None or text[position] not in ",]":
            # A number may continue; elements that end with a bracket or quote are complete.
            return (element_end if text[element_end - 1] in '}]"' else end), None
        end = element_end
        if text[position] == ",":
            position = _skip_space(text, position + 1)
    return end, None if position is None else position + 1


def _parse_complete_fields(text: str, at: int) -> dict[str, Any]:
    """Parse the fields after a comma at ``at`` that precede a comma or the object's end, so that no
    number is truncated. ``text`` contains bytes as characters."""
    fields: dict[str, Any] = {}
    position = _skip_space(text, at)
    while position is not None and text[position] == ",":
        try:
            field = _FIELD.match(text, position)
            value, end = _DECODER.raw_decode(text, field.end()) if field else (None, position)
            key = json.loads(field[1]) if field else ""
        except (ValueError, RecursionError):
            break
        position = _skip_space(text, end)
        if field is None or position is None or text[position] not in ",}":
            break
        fields[key] = value
    return fields


_FIELD = re.compile(r',\s*("(?:[^"\\]|\\.)*")\s*:\s*')


def _find_near_cuts(buffer: bytes) -> list[int]:
    """Find the last likely cuts, last one first."""
    cuts: list[int] = []
    for window in _WINDOWS:
        cuts = [match.end() for match in _CUT.finditer(buffer, max(0, len(buffer) - window))]
        if len(cuts) >= _MAX_CUTS:
            break
    return cuts[: -_MAX_CUTS - 1 : -1]


def _scan_cuts(buffer: bytes) -> Iterator[int]:
    """Find the position after the last complete element by counting brackets. Yields nothing if
    there is none or the array ends. Much slower than a near cut."""
    depth = 0
    cut = 0
    for token in _TOKEN.finditer(buffer):
        text = token[0]
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]"):
            depth -= 1
            if depth < 0:
                return
            if depth == 0 and _CUT.match(buffer, token.start()):
                cut = token.end()
        elif text == b'"':
            break
    if cut:
        yield cut


def _close_array(buffer: bytes, cut: int) -> bytes:
    return b"".join((b"[", memoryview(buffer)[:cut], b"]"))


def _find_next_element(buffer: bytes, cut: int) -> int:
    separator = _SEPARATOR.match(buffer, cut)
    assert separator is not None  # matched by the pattern of the cut
    return separator.end()


def _parse_object(text: bytes) -> dict[str, Any]:
    """Parse a JSON object, including NaN and Infinity. Raises ValueError for other text."""
    try:
        parsed = msgspec.json.decode(text)
    except STRICT_ERRORS:
        parsed = decode_text(text.decode("utf-8", "replace"))
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")
    return parsed
