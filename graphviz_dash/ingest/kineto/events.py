"""Kineto's event format and its decoder, tolerant of older or foreign writers."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct, field

from graphviz_dash.ingest.kineto.escapes import decode_text

ABSENT: Final = -(1 << 63)
"""A missing argument, null in the tables."""

NO_TIME: Final = math.nan
NO_RAW: Final = Raw(b"")

_MAX_NUMBER = 1e25
_INT64 = 1 << 63
_UNSIGNED = ("graph_id", "graph_node_id")
_GPU_ARGUMENTS = frozenset(
    ("device", "stream", "grid", "block", "shared", "registers", "bytes", *_UNSIGNED)
)
"""Arguments kept for GPU work only. Elsewhere these names have other meanings."""

_TEXT_ARGUMENTS = frozenset(("stream", "grid", "bytes"))

GPU_CATEGORIES: Final = frozenset(
    ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
)
"""Includes the categories of torch before 1.12."""
_CONTROL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f]")
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
"""A time as text, as Ascend's profiler writes it."""


ThreadId: TypeAlias = int | str
"""Process or thread of an event: a number, or a text for Kineto's own lanes."""


class Args(Struct, frozen=True, gc=False):
    """Arguments kept in the tables, by Kineto's names. A missing one is ABSENT, NO_RAW or the
    default."""

    external_id: int = field(default=ABSENT, name="External id")
    """Id of the operator around a call, or behind GPU work."""
    old_external_id: int = field(default=ABSENT, name="external id")
    """The same before torch 1.12."""
    correlation: int = ABSENT
    """Id shared by a call and its work."""
    device: int = ABSENT
    stream: int | str = ABSENT
    """Older ROCm writes the address of a call's stream."""
    grid: tuple[int, int, int] | str | None = None
    """Blocks of a launch. torch.compile writes "grid(100,)" for an operator."""
    block: tuple[int, int, int] | None = None
    shared: int = field(default=ABSENT, name="shared memory")
    """Static and dynamic, per block, in bytes."""
    registers: int = field(default=ABSENT, name="registers per thread")
    bytes: int | str = ABSENT
    """ROCm writes text for some runtime calls, which no table keeps."""
    graph_id: int = field(default=0, name="graph id")
    """Id of the executable graph, unsigned. 0 outside graphs."""
    graph_node_id: int = field(default=0, name="graph node id")
    """Alone or with the graph id in its upper half. 0 outside graphs."""
    sequence: int = field(default=ABSENT, name="Sequence number")
    """Autograd's number, which pairs forward and backward."""
    forward_tid: int = field(default=ABSENT, name="Fwd thread id")
    input_dims: Raw = field(default=NO_RAW, name="Input Dims")
    old_input_dims: Raw = field(default=NO_RAW, name="Input dims")
    input_types: Raw = field(default=NO_RAW, name="Input type")
    input_strides: Raw = field(default=NO_RAW, name="Input Strides")
    input_values: Raw = field(default=NO_RAW, name="Concrete Inputs")
    """Inputs that are not tensors, as JSON."""
    python_id: int = field(default=ABSENT, name="Python id")
    python_parent_id: int | None = field(default=ABSENT, name="Python parent id")
    """Id of the calling Python function. None for the outermost."""


NO_ARGS: Final = Args()


class Event(Struct, gc=False):
    """One entry of traceEvents."""

    ph: str = ""
    """Phase; X for a slice."""
    cat: str = ""
    name: str = ""
    pid: ThreadId = ABSENT
    """Process id, or the device of GPU work."""
    tid: ThreadId = ABSENT
    """Thread id, or the stream of GPU work."""
    ts: int | float | Decimal = NO_TIME
    """Start in microseconds, as a number of any type."""
    dur: int | float | Decimal = NO_TIME
    """Duration in microseconds."""
    args: Args = NO_ARGS


class _FastEvent(Event, gc=False):
    ts: int | float = NO_TIME
    dur: int | float = NO_TIME


class _ExactEvent(Event, gc=False):
    ts: Decimal = Decimal("NaN")
    dur: Decimal = Decimal("NaN")


_fast_decoder = msgspec.json.Decoder(list[_FastEvent])
_exact_decoder = msgspec.json.Decoder(list[_ExactEvent])


def _parse_number(text: str) -> float | Decimal:
    """Parse a number exactly. Decimal traps huge exponents, so these become floats."""
    value = float(text)
    return Decimal(text) if abs(value) < _MAX_NUMBER else value


_untyped_decoder = msgspec.json.Decoder(float_hook=_parse_number)


class UnusableEventError(Exception):
    """Invalid value of an event, which is omitted and counted."""


UNUSABLE_EVENT: Final = Event(cat="unusable")
"""Placeholder for an omitted event."""


class EventDecoder:
    """Decodes pieces of traceEvents and counts omitted data.

    The caller sets ``exact`` if times are too large for floats. ``unreadable`` counts invalid
    arguments, which become null, by name; ``unusable`` omitted events, by problem.
    """

    def __init__(self) -> None:
        self.exact = False
        self.unreadable: Counter[str] = Counter()
        self.unusable: Counter[str] = Counter()

    def decode_strictly(self, piece: bytes) -> list[Event]:
        """Decode a JSON array of events. Raises DecodeError or UnicodeDecodeError."""
        decoder = _exact_decoder if self.exact else _fast_decoder
        try:
            events: list[Event] = decoder.decode(piece)  # type: ignore[assignment]
        except msgspec.ValidationError:
            # Later text may not be JSON. Then this raises, because the cut was wrong.
            events = list(map(self._convert_event, _check_items(_untyped_decoder.decode(piece))))
        return events

    def decode_leniently(self, piece: bytes) -> list[Event]:
        """Decode, also with NaN, Infinity, control characters, invalid UTF-8 and invalid escapes.
        Raises JSONDecodeError for other text."""
        text = piece.decode("utf-8", "replace")
        items = _check_items(decode_text(text, _parse_number))
        return list(map(self._convert_event, items))

    def decode_unchecked(self, piece: bytes) -> list[Event] | None:
        """Decode a piece cut at a likely position. None if the cut was wrong, or only the complete
        document can be read."""
        try:
            if not piece.isascii():
                piece.decode()
            return self.decode_strictly(piece)
        except (UnicodeDecodeError, RecursionError):
            return None
        except msgspec.DecodeError:
            pass
        if _CONTROL.search(piece):
            return None
        try:
            return self.decode_leniently(piece)  # NaN and similar
        except (ValueError, RecursionError):
            return None

    def _convert_event(self, item: Any) -> Event:
        try:
            return self._read_event(item)
        except UnusableEventError as error:
            self.unusable[str(error)] += 1
            return UNUSABLE_EVENT

    def _read_event(self, item: Any) -> Event:
        if not isinstance(item, dict):
            raise UnusableEventError("not an object")
        args = item.get("args")
        return Event(
            ph=_read_text(item, "ph"),
            cat=_read_text(item, "cat"),
            name=_read_text(item, "name"),
            pid=_convert_thread(item.get("pid")),
            tid=_convert_thread(item.get("tid")),
            ts=_read_time(item, "ts"),
            dur=_read_time(item, "dur"),
            args=self._read_args(args, item.get("cat")) if isinstance(args, dict) else NO_ARGS,
        )

    def _read_args(self, args: dict[str, Any], category: object) -> Args:
        values: dict[str, Any] = {}
        for name, attribute in _ARGUMENTS.items():
            value = args.get(name)
            if value is None or (attribute in _GPU_ARGUMENTS and category not in GPU_CATEGORIES):
                continue
            if isinstance(value, str) and attribute in _TEXT_ARGUMENTS:
                values[attribute] = _replace_surrogates(value)
                continue
            converted = _get_converter(attribute)(value)
            if converted is None:
                self.unreadable[name] += 1
            elif (
                isinstance(converted, int)
                and not -_INT64 < converted < _INT64
                and attribute not in _UNSIGNED
            ):
                raise UnusableEventError(f"a {name} out of range")
            else:
                values[attribute] = converted
        return Args(**values)


def _read_text(item: dict[str, Any], key: str) -> str:
    value = item.get(key, "")
    if isinstance(value, str):
        return _replace_surrogates(value)
    if value is None:
        return ""
    raise UnusableEventError(f"no text as {key}")


def _read_time(item: dict[str, Any], key: str) -> int | float | Decimal:
    value = item.get(key, NO_TIME)
    # Times of events without a table are not checked.
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    if item.get("ph") != "X":
        return NO_TIME
    if not isinstance(value, str):
        raise UnusableEventError(f"no {key}")
    if _NUMBER.fullmatch(value) is None:
        raise UnusableEventError(f"a {key} as text")
    return int(value) if value.lstrip("-").isdigit() else _parse_number(value)


_ARGUMENTS = {info.encode_name: info.name for info in msgspec.structs.fields(Args)}


def _check_items(decoded: Any) -> list[Any]:
    assert isinstance(decoded, list)  # the text starts with a bracket
    return decoded


def _convert_integer(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    if isinstance(value, float | Decimal):
        if not abs(float(value)) < _MAX_NUMBER:  # NaN and Infinity too
            return None
        integer = int(value)
        return integer if value == integer else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _convert_shape(value: Any) -> tuple[int, int, int] | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = map(_convert_integer, value)
    return None if x is None or y is None or z is None else (x, y, z)


def _convert_raw(value: Any) -> Raw:
    return Raw(json.dumps(value, default=str).encode())


def _get_converter(attribute: str) -> Callable[[Any], object]:
    if attribute in ("grid", "block"):
        return _convert_shape
    return _convert_raw if attribute.startswith(("input", "old_input")) else _convert_integer


def _convert_thread(value: Any) -> ThreadId:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    return ABSENT


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
