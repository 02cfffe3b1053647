"""One large array inside a JSON document, decoded piece by piece as the document is read.

A piece ends where the text looks like ``}, {"``, whatever the white space, and is accepted only if
it decodes as a list of whole elements: a cut inside a string leaves a quote open and one inside a
nested value leaves a bracket open, so a wrong cut can never decode, and the one before it is tried.

A document that is cut or damaged is read up to its last whole element before the damage, which
``ArrayReader.damage`` then tells.
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
from graphviz_dash.ingest.limits import Limits

T = TypeVar("T")

_CUT = re.compile(rb'}(?=\s*,\s*{\s*["}])')
_BETWEEN = re.compile(rb"\s*,\s*")
_ARRAY_END = re.compile(rb"}\s*\]")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{}]', re.DOTALL)
_VALUE = re.compile(rb"\s*:\s*(\S)")
_SPACE = b" \t\r\n"
_CONTROL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f]")
_BOM = b"\xef\xbb\xbf"
_IMPORT_IT = "Of a report of Nsight Systems make a run first: graphviz-dash import FILE -o FOLDER."
_WINDOWS = (4 << 10, 64 << 10)  # from the end: where the last cuts of a piece are looked for
_TRIES = 6  # such cuts tried, each at the cost of decoding a piece
_LONGEST_WORD = 400  # digits of a number, or letters of a word, that a chunk's end may cut
_END_TRIES = 64  # array ends tried; each "} ]" in the fields behind the array costs one

Decode = Callable[[bytes], list[T]]
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError)
"""What a strict decoder raises for text that is not JSON."""
NOT_EVEN_ALMOST_JSON = (ValueError,)
"""What a lenient decoder, the standard library's, raises (JSONDecodeError is one)."""


class ArrayReader(Generic[T]):
    """Reads the array under the top-level ``key`` of the document in ``stream``; a document that is
    an array itself counts as one, without fields.

    ``strict`` decodes most pieces and raises what :data:`NOT_JSON` names; ``lenient`` is asked for
    those pieces that ``strict`` refuses at every cut.

    ``span`` says in which bytes of the document, decompressed, the piece given last stands. Once
    iteration has ended, ``fields`` holds the other top-level fields, wherever they stand in the
    file. ``damage`` says why the document was not read to its end, if so, and ``read_bytes`` how
    much of it was. ``repaired`` says that text was accepted that holds control characters or bytes
    that are not UTF-8, as zeroed blocks do.

    ``hand_over``, where it is set, is offered each piece before it is decoded here, cut where it
    looks right. If it returns true the piece is its own to decode and check, and None is given in
    its place. What this reader does or says after a piece that turns out to be wrong means nothing.
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
        self._before = 0  # bytes of the document before self._buffer
        self._bare = False

    @property
    def read_bytes(self) -> int:
        """Bytes of the document that were taken in, decompressed."""
        return self._before

    def __iter__(self) -> Iterator[list[T] | None]:
        """The elements, piece by piece, in order; None for a piece that was handed over.

        Raises:
            InputError: no such array, a document damaged before it, or too large an element.
        """
        try:
            self._buffer = self._enter()
        except _DamagedError as error:
            raise self.refused(self._stream.damage or error.damage) from error
        try:
            yield from self._pieces()
            last = self._last(self._buffer)
            self.span = (self._before, self._before + len(self._buffer))
            self._before += len(self._buffer)
            self.damage = self._stream.damage
        except _DamagedError as error:
            self.damage = self._stream.damage or error.damage
            last = self._salvaged()
        yield last

    def refused(self, damage: Damage) -> InputError:
        """The error for a document of whose array nothing could be used."""
        advice = _ADVICE_CUT if damage.cut else _ADVICE_DAMAGED
        return InputError(self._path, damage.description, "a whole JSON document", advice)

    def _pieces(self) -> Iterator[list[T] | None]:
        """All but the last elements; these and what stands behind them are left in the buffer."""
        wanted = 0
        while self._read_until(wanted):
            piece = self._handed(self._buffer) or self._piece(self._buffer)
            if piece is None:
                # One long element, or damage: look again when there is twice as much, so that the
                # work stays proportional to what was read.
                if len(self._buffer) > self._limits.event_bytes:
                    raise self._too_long()
                wanted = 2 * len(self._buffer)
                continue
            items, rest = piece
            self.span = (self._before, self._before + rest)
            self._before += rest
            self._buffer = self._buffer[rest:]
            wanted = 0
            yield items

    def _read_until(self, wanted: int) -> bool:
        """Takes in one block and as many as the buffer needs to have ``wanted`` bytes; False: the
        document ended before. Blocks are joined once, not each copied behind all before it."""
        blocks = [self._buffer]
        length = len(self._buffer)
        try:
            while data := self._stream.read():
                blocks.append(data)
                length += len(data)
                if length >= wanted:
                    return True
            return False
        finally:
            self._buffer = b"".join(blocks)

    def _handed(self, buffer: bytes) -> tuple[None, int] | None:
        """Where the next element begins behind a piece that was handed over; None: none was."""
        if self.hand_over is None:
            return None
        near = _near_cuts(buffer)
        if not near or not self.hand_over(memoryview(buffer)[: near[0]]):
            return None
        return None, _next_element(buffer, near[0])

    def _salvaged(self) -> list[T]:
        """The whole elements in the buffer before its damage, and the whole fields if the array
        ended before it."""
        # latin-1 keeps every place, and JSON's own characters are ASCII.
        text = self._buffer.decode("latin-1")
        try:
            end, closed = _whole_elements(text)
        except RecursionError as error:
            raise self._too_deep() from error
        items = self._salvaged_items(end)
        if closed is not None and (items or not end):
            self._take(_whole_fields(text, closed))
        self.span = (self._before, self._before + end)
        self._before += end if items else 0
        return items

    def _salvaged_items(self, end: int) -> list[T]:
        if end == 0:
            return []
        items = self._decoded(self._buffer, end)
        return items or self._decoded_leniently(self._buffer, end) or []

    def _enter(self) -> bytes:
        """Reads up to the first element; returns what was read behind the array's bracket."""
        buffer = self._stream.read()
        if buffer.startswith(_BOM):
            buffer = buffer[len(_BOM) :]
            self._before = len(_BOM)
        while not buffer.strip(_SPACE):
            data = self._stream.read()
            if not data and self._stream.damage:
                raise _DamagedError(self._stream.damage)
            if not data:
                raise InputError(self._path, "an empty file", "a Kineto trace")
            self._before += len(buffer)
            buffer = data
        first = buffer.lstrip(_SPACE)[:1]
        if first == b"[":
            self._bare = True
            at = buffer.index(b"[") + 1
            self._before += at
            return buffer[at:]
        if first != b"{":
            shown = buffer.lstrip(_SPACE)[:16]
            raise InputError(
                self._path,
                f"no JSON object: it starts with {shown!r}",
                "a Kineto trace, a JSON object with an array traceEvents",
                _IMPORT_IT if shown.startswith(b"SQLite format 3") else "",
            )
        return self._scan_fields(buffer)

    def _scan_fields(self, buffer: bytes) -> bytes:
        depth = 0
        position = 0
        wanted = f'"{self._key}"'.encode()
        while True:
            stopped = len(buffer)
            for token in _TOKEN.finditer(buffer, position):
                text = token[0]
                start = token.start()
                if text == b'"':  # a string that goes on behind the buffer
                    stopped = start
                    break
                if text in (b"{", b"["):
                    depth += 1
                    if depth > self._limits.nesting:
                        actual = f"JSON nested more than {self._limits.nesting} deep"
                        raise self._limits.refuse(self._path, "nesting", actual)
                elif text in (b"}", b"]"):
                    depth -= 1
                    if depth == 0:
                        raise self._no_array(buffer[: token.end()])
                elif depth == 1 and text == wanted:
                    value = _VALUE.match(buffer, token.end())
                    if value is None and not buffer[token.end() :].strip(_SPACE + b":"):
                        stopped = start  # the value is not read yet
                        break
                    if value is not None:
                        return self._open(buffer, start, value)
            if len(buffer) > self._limits.event_bytes:
                raise self._too_long()
            more = self._stream.read(max(1, len(buffer)))
            if not more:
                raise self._damaged(buffer, "")
            position = stopped
            buffer += more

    def _open(self, buffer: bytes, key_at: int, value: re.Match[bytes]) -> bytes:
        if value[1] != b"[":
            raise InputError(
                self._path,
                f"{self._key} is not an array but starts with {value[1]!r}",
                f"an array {self._key}",
            )
        head = buffer[:key_at].rstrip(_SPACE).removesuffix(b",") + b"}"
        try:
            self._take(_fields(head))
        except NOT_EVEN_ALMOST_JSON as error:
            raise self._damaged(buffer, "") from error
        except RecursionError as error:
            raise self._too_deep() from error
        self._before += value.end()
        return buffer[value.end() :]

    def _piece(self, buffer: bytes) -> tuple[list[T], int] | None:
        """The elements up to the last good cut, and where the next element begins; None: there is
        no good cut in ``buffer`` yet, or the array has ended in it."""
        near = _near_cuts(buffer)
        for cut in near:
            items = self._decoded(buffer, cut)
            if items is not None:
                return items, _next_element(buffer, cut)
        # The text holds NaN or such, or all these cuts lie inside one element.
        for cut in chain(near[:1], _scanned_cuts(buffer)):
            items = self._decoded(buffer, cut)
            if items is None:
                items = self._decoded_leniently(buffer, cut)
            if items is not None:
                return items, _next_element(buffer, cut)
        self._check_prefix(buffer)
        return None

    def _decoded(self, buffer: bytes, cut: int) -> list[T] | None:
        try:
            items = self._strict(_closed(buffer, cut))
        except NOT_JSON:
            return None
        except RecursionError as error:
            raise self._too_deep() from error
        self._look(buffer, cut)
        return items

    def _look(self, buffer: bytes, end: int) -> None:
        """Notes whether accepted text holds what no JSON should; strict decoders pass over what
        they do not keep."""
        if not self.repaired and not buffer.isascii():
            try:
                buffer[:end].decode()
            except UnicodeDecodeError:
                self.repaired = True

    def _decoded_leniently(self, buffer: bytes, cut: int) -> list[T] | None:
        try:
            items = self._lenient(_closed(buffer, cut))
        except RecursionError as error:
            raise self._too_deep() from error
        except ValueError:
            return None
        self._look_closely(buffer, cut)
        return items

    def _look_closely(self, buffer: bytes, end: int) -> None:
        self._look(buffer, end)
        self.repaired = self.repaired or _CONTROL.search(buffer, 0, end) is not None

    def _check_prefix(self, buffer: bytes) -> None:
        """Raises _DamagedError when ``buffer`` is damaged, rather than only not complete."""
        text = "[" + buffer.decode("utf-8", "replace")
        try:
            json.JSONDecoder(strict=False).raw_decode(text)
        except RecursionError as error:
            raise self._too_deep() from error
        except json.JSONDecodeError as error:
            # Text that only goes on behind the buffer fails at its end, or at an open string; a
            # word or number that is cut fails where it begins.
            open_string = error.msg.startswith("Unterminated string")
            if not open_string and len(text[error.pos :].strip()) > _LONGEST_WORD:
                raise self._damaged(buffer, "[") from error
        except ValueError as error:  # a number of thousands of digits
            raise self._damaged(buffer, "[") from error

    def _last(self, buffer: bytes) -> list[T]:
        """The elements that are left, and the fields behind the array."""
        empty = buffer.lstrip(_SPACE).startswith(b"]")
        ends = (
            [buffer.index(b"]") + 1]
            if empty
            else [match.end() for match in _ARRAY_END.finditer(buffer)][: -_END_TRIES - 1 : -1]
        )
        for end in ends:
            fields = self._parsed_tail(buffer[end:])
            if fields is None:
                continue
            try:
                items = self._strict(b"[" + buffer[:end])
            except NOT_JSON:
                continue
            except RecursionError as error:
                raise self._too_deep() from error
            self._take(fields)
            self._look_closely(buffer, len(buffer))
            return items
        return self._last_leniently(buffer)

    def _last_leniently(self, buffer: bytes) -> list[T]:
        text = "[" + buffer.decode("utf-8", "replace")
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(text)
        except RecursionError as error:
            raise self._too_deep() from error
        except ValueError as error:
            raise self._damaged(buffer, "[") from error
        tail = text[end:]
        fields = self._parsed_tail(tail.encode())
        if fields is None:
            raise self._damaged_tail(tail, self._before + len(text[1:end].encode()))
        items = self._lenient(text[:end].encode())
        self._take(fields)
        self._look_closely(buffer, len(buffer))
        return items

    def _parsed_tail(self, tail: bytes) -> dict[str, Any] | None:
        """The fields in ``tail``, the document's text behind the array; None: not such a text."""
        text = tail.strip(_SPACE)
        if self._bare:
            return None if text else {}
        if text[:1] == b",":
            text = text[1:]
        elif text != b"}":
            return None
        try:
            parsed = _fields(b"{" + text)
        except NOT_EVEN_ALMOST_JSON:
            return None
        except RecursionError as error:
            raise self._too_deep() from error
        return parsed

    def _take(self, fields: dict[str, Any]) -> None:
        if self._key in fields:
            raise InputError(self._path, f"{self._key} twice", f"one array {self._key}")
        self.fields.update(fields)

    def _no_array(self, document: bytes) -> Exception:
        actual = f"a JSON object without {self._key}"
        try:
            keys = list(_fields(document))
        except (*NOT_EVEN_ALMOST_JSON, RecursionError):
            return self._damaged(document, "")
        named = ", ".join(repr(key[:40]) for key in islice(keys, 5))
        actual += f" (it has {named})" if named else " (it is empty)"
        return InputError(self._path, actual, "a Kineto trace, as torch.profiler exports it")

    def _too_long(self) -> InputError:
        actual = f"an event or field that does not end within {self._limits.event_bytes:,} bytes"
        return self._limits.refuse(self._path, "event_bytes", actual)

    def _too_deep(self) -> InputError:
        return self._limits.refuse(self._path, "nesting", "JSON nested too deeply to be decoded")

    def _damaged_tail(self, tail: str, before: int) -> Exception:
        """What is wrong with the text behind the array."""
        fields = tail.lstrip()
        if self._bare or fields[:1] not in (",", ""):
            behind = fields.removeprefix("}").lstrip()
            at = before + len(tail.encode()) - len(behind.encode())
            description = f"text behind the end of the JSON, at byte {at:,} ({behind[:24]!r})"
            return _DamagedError(Damage(False, description))
        before += len(tail) - len(fields) + len(fields[:1])
        return self._damaged(fields[1:].encode(), "{", before)

    def _damaged(self, buffer: bytes, opening: str, before: int | None = None) -> Exception:
        """What is wrong with ``buffer``, which ``opening`` makes into the start of a document and
        which stands behind ``before`` bytes of it."""
        before = self._before if before is None else before
        text = opening + buffer.decode("utf-8", "replace")
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(text.lstrip())
        except json.JSONDecodeError as error:
            end, reason = error.pos, error.msg
        except RecursionError:
            return self._too_deep()
        except ValueError:  # Python refuses to read such integers
            return _DamagedError(Damage(False, "a number of thousands of digits"))
        else:
            reason = "unexpected text"
        rest = text.lstrip()[end:].strip()
        if _UNFINISHED.fullmatch(rest) or reason.startswith("Unterminated string"):
            description = f"JSON that ends too early, after {before + len(buffer):,} bytes"
            return _DamagedError(Damage(True, description))
        at = before + len(text.lstrip()[:end].encode()) - len(opening)
        description = f"not JSON at byte {at:,} ({reason.lower()}, at {rest[:24]!r})"
        return _DamagedError(Damage(False, description))


# What is left of a number, a word or an escape that the end of the file cuts.
_UNFINISHED = re.compile(
    r"(-?|\.|[eE][+-]?|tr?u?|fa?l?s?|nu?l?|Na?|-?I[infty]*|u[\da-fA-F]{0,3})", re.ASCII
)


class _DamagedError(Exception):
    """The document cannot be read on from here."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(damage.description)
        self.damage = damage


_ADVICE_CUT = "The trace was cut off while it was written or copied: record or copy it anew."
_ADVICE_DAMAGED = "The trace was changed after it was written: record or copy it anew."
_DECODER = json.JSONDecoder(strict=False)


def _skipped(text: str, at: int) -> int | None:
    """The next place behind white space; None at the end."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at if at < len(text) else None


def element_spans(piece: bytes) -> Iterator[tuple[int, int]]:
    """First and last byte (the latter not included) of each element in ``piece``, elements of an
    array with what separates them; ends at the array's end or where ``piece`` is no JSON."""
    text = piece.decode("latin-1")
    at = _skipped(text, 0)
    while at is not None and text[at] != "]":
        try:
            _, end = _DECODER.raw_decode(text, at)
        except ValueError:
            return
        yield at, end
        at = _skipped(text, end)
        if at is not None and text[at] == ",":
            at = _skipped(text, at + 1)


def _whole_elements(text: str) -> tuple[int, int | None]:
    """Where the last whole element of an array's text ends, and the place behind the array's end,
    None if it does not end. RecursionError for one nested too deeply."""
    end = 0
    at = _skipped(text, 0)
    while at is not None and text[at] != "]":
        try:
            _, stopped = _DECODER.raw_decode(text, at)
        except ValueError:
            return end, None
        at = _skipped(text, stopped)
        if at is None or text[at] not in ",]":
            # A number may go on, whatever has brackets is whole.
            return (stopped if text[stopped - 1] in '}]"' else end), None
        end = stopped
        if text[at] == ",":
            at = _skipped(text, at + 1)
    return end, None if at is None else at + 1


def _whole_fields(text: str, at: int) -> dict[str, Any]:
    """The fields behind a comma at ``at`` that are followed by a comma or the end of the object, so
    that none is the half of a number. ``text`` holds bytes as characters."""
    fields: dict[str, Any] = {}
    position = _skipped(text, at)
    while position is not None and text[position] == ",":
        try:
            field = _FIELD.match(text, position)
            value, end = _DECODER.raw_decode(text, field.end()) if field else (None, position)
            key = json.loads(field[1]) if field else ""
        except (ValueError, RecursionError):
            break
        position = _skipped(text, end)
        if field is None or position is None or text[position] not in ",}":
            break
        fields[key] = value
    return fields


_FIELD = re.compile(r',\s*("(?:[^"\\]|\\.)*")\s*:\s*')


def _near_cuts(buffer: bytes) -> list[int]:
    """The last places where a piece could end, the last one first; nearly always it is right."""
    cuts: list[int] = []
    for window in _WINDOWS:
        cuts = [match.end() for match in _CUT.finditer(buffer, max(0, len(buffer) - window))]
        if len(cuts) >= _TRIES:
            break
    return cuts[: -_TRIES - 1 : -1]


def _scanned_cuts(buffer: bytes) -> Iterator[int]:
    """The last place behind a whole element, found by counting every bracket outside strings; none
    if there is no such place, or the array ends in ``buffer``. Much slower than a near cut."""
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


def _closed(buffer: bytes, cut: int) -> bytes:
    return b"".join((b"[", memoryview(buffer)[:cut], b"]"))


def _next_element(buffer: bytes, cut: int) -> int:
    separator = _BETWEEN.match(buffer, cut)
    assert separator is not None  # the cut's own pattern has seen it
    return separator.end()


def _fields(text: bytes) -> dict[str, Any]:
    """A JSON object; NaN and Infinity are read too. ValueError if ``text`` is none."""
    try:
        parsed = msgspec.json.decode(text)
    except NOT_JSON:
        parsed = json.loads(text.decode("utf-8", "replace"), strict=False)
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")
    return parsed
