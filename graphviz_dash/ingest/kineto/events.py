"""What Kineto writes for one event, and how it is decoded: fast where the types are as they should
be, patiently where an older or foreign writer differs.
"""

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

ABSENT: Final = -(1 << 63)
"""Stands for an argument that the event does not have; becomes null in the tables."""

NO_TIME: Final = math.nan
NO_RAW: Final = Raw(b"")

_LARGEST = 1e25
_INT64 = 1 << 63
_UNSIGNED = ("graph_id", "graph_node_id")
_OF_WORK = frozenset(
    ("device", "stream", "grid", "block", "shared", "registers", "bytes", *_UNSIGNED)
)
"""Arguments kept of work on a GPU only; elsewhere the same names stand for other things."""

_OR_TEXT = frozenset(("stream", "grid", "bytes"))
"""Arguments whose text is decoded too, so that the fast way need not be left for it."""

GPU_CATEGORIES: Final = frozenset(
    ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")
)
"""Of work on a GPU; those of torch before 1.12 among them."""
_CONTROL = re.compile(rb"[\0-\x08\x0b\x0c\x0e-\x1f]")


ThreadId: TypeAlias = int | str
"""What Kineto writes as the process or thread of an event: a number, for its own lanes a text."""


class Args(Struct, frozen=True, gc=False):
    """The arguments that the tables keep, by Kineto's names; older torch wrote two otherwise.
    ABSENT, NO_RAW or the default named here where the event has none."""

    external_id: int = field(default=ABSENT, name="External id")
    """The operator around a call, and the call behind work on a GPU."""
    old_external_id: int = field(default=ABSENT, name="external id")
    """The same before torch 1.12."""
    correlation: int = ABSENT
    """What a call and the work that it launched have in common."""
    device: int = ABSENT
    """The GPU's number."""
    stream: int | str = ABSENT
    """The stream's number; older ROCm writes the address of a call's stream."""
    grid: tuple[int, int, int] | str | None = None
    """Blocks of a launch; torch.compile writes "grid(100,)" of an operator."""
    block: tuple[int, int, int] | None = None
    """Threads of a block."""
    shared: int = field(default=ABSENT, name="shared memory")
    """Bytes a block, static and dynamic together."""
    registers: int = field(default=ABSENT, name="registers per thread")
    """Of a kernel."""
    bytes: int | str = ABSENT
    """Of a memcpy or memset; ROCm writes text into some runtime calls, which no table keeps."""
    graph_id: int = field(default=0, name="graph id")
    """The executable graph, unsigned; 0: of none."""
    graph_node_id: int = field(default=0, name="graph node id")
    """The node, alone or with the graph in its upper half, unsigned; 0: of none."""
    sequence: int = field(default=ABSENT, name="Sequence number")
    """Autograd's number, by which forward and backward are paired."""
    forward_tid: int = field(default=ABSENT, name="Fwd thread id")
    """The thread of the forward operator."""
    input_dims: Raw = field(default=NO_RAW, name="Input Dims")
    """Shapes of an operator's inputs, as JSON."""
    old_input_dims: Raw = field(default=NO_RAW, name="Input dims")
    """The same in older torch."""
    input_types: Raw = field(default=NO_RAW, name="Input type")
    """Their types, as JSON."""
    python_id: int = field(default=ABSENT, name="Python id")
    """A call of a Python function."""
    python_parent_id: int | None = field(default=ABSENT, name="Python parent id")
    """The call around it; None for the outermost."""


NO_ARGS: Final = Args()


class Event(Struct, gc=False):
    """One entry of traceEvents."""

    ph: str = ""
    """The phase: X for a slice."""
    cat: str = ""
    """Kineto's category."""
    name: str = ""
    """Of the kernel, call, operator or range."""
    pid: ThreadId = ABSENT
    """The process, or the device of work on a GPU."""
    tid: ThreadId = ABSENT
    """The thread, or the stream of work on a GPU."""
    ts: int | float | Decimal = NO_TIME
    """Start in microseconds, as a number of any kind."""
    dur: int | float | Decimal = NO_TIME
    """Duration in microseconds."""
    args: Args = NO_ARGS
    """The arguments that are kept."""


class _FastEvent(Event, gc=False):
    ts: int | float = NO_TIME
    dur: int | float = NO_TIME


class _ExactEvent(Event, gc=False):
    ts: Decimal = Decimal("NaN")
    dur: Decimal = Decimal("NaN")


_fast = msgspec.json.Decoder(list[_FastEvent])
_exact = msgspec.json.Decoder(list[_ExactEvent])


def _number(text: str) -> float | Decimal:
    """A number with its digits; one beyond any use as a float, for Decimal traps such exponents."""
    value = float(text)
    return Decimal(text) if abs(value) < _LARGEST else value


_untyped = msgspec.json.Decoder(float_hook=_number)


class UnusableEventError(Exception):
    """An event has a value that cannot be, which is named: it is left out and counted."""


UNUSABLE: Final = Event(cat="unusable")
"""Stands in its place for an event that is left out."""


class EventDecoder:
    """Decodes pieces of traceEvents of one trace, and counts what it had to leave out.

    ``exact`` is set by the caller when times turn out too large for floats to hold nanoseconds.
    ``unreadable`` counts arguments, by name, whose value is of no use and which become null, and
    ``unusable`` events that are left out, by what is the matter.
    """

    def __init__(self) -> None:
        self.exact = False
        self.unreadable: Counter[str] = Counter()
        self.unusable: Counter[str] = Counter()

    def strict(self, piece: bytes) -> list[Event]:
        """A JSON array of events; raises DecodeError or UnicodeDecodeError for other text."""
        decoder = _exact if self.exact else _fast
        try:
            events: list[Event] = decoder.decode(piece)  # type: ignore[assignment]
        except msgspec.ValidationError:
            # Text may still be no JSON further on: then this raises and the cut was wrong.
            events = list(map(self._event, _items(_untyped.decode(piece))))
        return events

    def lenient(self, piece: bytes) -> list[Event]:
        """As :meth:`strict`, and reads NaN, Infinity, raw control characters and broken UTF-8 too.
        JSONDecodeError for what is not even that."""
        text = piece.decode("utf-8", "replace")
        items = _items(json.loads(text, strict=False, parse_float=_number))
        return list(map(self._event, items))

    def unchecked(self, piece: bytes) -> list[Event] | None:
        """The events of a piece that was cut where it looked right. None: the cut was wrong, or
        something else is the matter that only a reader of the whole can tell."""
        try:
            if not piece.isascii():
                piece.decode()
            return self.strict(piece)
        except (UnicodeDecodeError, RecursionError):
            return None
        except msgspec.DecodeError:
            pass
        if _CONTROL.search(piece):
            return None
        try:
            return self.lenient(piece)  # NaN and its like
        except (ValueError, RecursionError):
            return None

    def _event(self, item: Any) -> Event:
        try:
            return self._read(item)
        except UnusableEventError as error:
            self.unusable[str(error)] += 1
            return UNUSABLE

    def _read(self, item: Any) -> Event:
        if not isinstance(item, dict):
            raise UnusableEventError("no object")
        args = item.get("args")
        return Event(
            ph=_text(item, "ph"),
            cat=_text(item, "cat"),
            name=_text(item, "name"),
            pid=_thread(item.get("pid")),
            tid=_thread(item.get("tid")),
            ts=_time(item, "ts"),
            dur=_time(item, "dur"),
            args=self._args(args, item.get("cat")) if isinstance(args, dict) else NO_ARGS,
        )

    def _args(self, args: dict[str, Any], category: object) -> Args:
        values: dict[str, Any] = {}
        for name, attribute in _ARGUMENTS.items():
            value = args.get(name)
            if value is None or (attribute in _OF_WORK and category not in GPU_CATEGORIES):
                continue
            if isinstance(value, str) and attribute in _OR_TEXT:
                values[attribute] = _without_surrogates(value)
                continue
            read = _reader(attribute)(value)
            if read is None:
                self.unreadable[name] += 1
            elif (
                isinstance(read, int) and not -_INT64 < read < _INT64 and attribute not in _UNSIGNED
            ):
                raise UnusableEventError(f"an absurd {name}")
            else:
                values[attribute] = read
        return Args(**values)


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key, "")
    if isinstance(value, str):
        return _without_surrogates(value)
    if value is None:
        return ""
    raise UnusableEventError(f"no text as {key}")


def _time(item: dict[str, Any], key: str) -> int | float | Decimal:
    value = item.get(key, NO_TIME)
    # Times of events that no table keeps are never looked at.
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    if item.get("ph") != "X":
        return NO_TIME
    raise UnusableEventError(f"a {key} that is text" if isinstance(value, str) else f"no {key}")


_ARGUMENTS = {info.encode_name: info.name for info in msgspec.structs.fields(Args)}


def _items(decoded: Any) -> list[Any]:
    assert isinstance(decoded, list)  # the text began with a bracket
    return decoded


def _integer(value: Any) -> int | None:
    """An integer from a number or the text of one; None: it is none."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    if isinstance(value, float | Decimal):
        if not abs(float(value)) < _LARGEST:  # NaN and Infinity too
            return None
        whole = int(value)
        return whole if value == whole else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _shape(value: Any) -> tuple[int, int, int] | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = map(_integer, value)
    return None if x is None or y is None or z is None else (x, y, z)


def _raw(value: Any) -> Raw:
    return Raw(json.dumps(value, default=str).encode())


def _reader(attribute: str) -> Callable[[Any], object]:
    if attribute in ("grid", "block"):
        return _shape
    return _raw if attribute.startswith(("input", "old_input")) else _integer


def _thread(value: Any) -> ThreadId:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return value
    return ABSENT


def _without_surrogates(text: str) -> str:
    """Half a surrogate pair, which JSON can escape but UTF-8 cannot hold, becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
