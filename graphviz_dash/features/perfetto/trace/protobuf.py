"""Column-wise encoding of protocol buffer messages.

A row is one message. A :class:`FieldColumn` holds bytes of every row, so a field of 100,000
messages costs a few array operations. Format: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Bytes: TypeAlias = npt.NDArray[np.uint8]
Sizes: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_VARINT_BITS = 7
_MAX_VARINT_BYTES = 10


class WireType(IntEnum):
    """Encoding of a field's value."""

    VARINT = 0
    FIXED64 = 1
    LENGTH = 2


class FieldColumn(Struct, frozen=True):
    """Bytes of each row: the first ``size[i]`` bytes of ``data[i]``.

    ``data`` has shape (rows, width), or (1, width) if all rows have the same bytes.
    """

    data: Bytes
    size: Sizes


class RaggedColumn(Struct, frozen=True):
    """Variable-length bytes at the end of each row: ``size[i]`` bytes of ``data`` each."""

    data: Bytes
    size: Sizes


def encode_tag(number: int, wire: WireType) -> bytes:
    """Encode the key before a field's value."""
    return encode_varint(number << 3 | wire)


def encode_varint(value: int) -> bytes:
    """Encode a non-negative integer as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= _VARINT_BITS
    out.append(value)
    return bytes(out)


def encode_constant(data: bytes, present: Mask) -> FieldColumn:
    """Build a column of the same bytes in present rows."""
    return FieldColumn(np.frombuffer(data, dtype=np.uint8)[None, :], present * np.int64(len(data)))


def encode_varints(
    values: npt.NDArray[np.int64] | npt.NDArray[np.uint64], present: Mask
) -> FieldColumn:
    """Encode unsigned integers of shape (rows,) in the minimum number of bytes."""
    unsigned = values.astype(np.uint64, copy=False)
    largest = int(unsigned.max()) if len(unsigned) else 0
    width = min(_MAX_VARINT_BYTES, -(-max(1, largest.bit_length()) // _VARINT_BITS))
    data = np.empty((len(unsigned), width), dtype=np.uint8)
    size = np.ones(len(unsigned), dtype=np.int64)
    for byte in range(width):
        remaining = unsigned >> np.uint64(_VARINT_BITS * (byte + 1)) if byte < 9 else None
        data[:, byte] = (unsigned >> np.uint64(_VARINT_BITS * byte)).astype(np.uint8) & 0x7F
        if remaining is not None and byte + 1 < width:
            more = remaining > 0
            data[:, byte] |= more.astype(np.uint8) << 7
            size += more
    return FieldColumn(data, np.where(present, size, 0))


def encode_doubles(values: npt.NDArray[np.float64], present: Mask) -> FieldColumn:
    """Encode numbers of shape (rows,) as 64-bit floats."""
    data = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(len(values), 8)
    return FieldColumn(data, present * np.int64(8))


def encode_message(
    number: int, parts: Sequence[FieldColumn], present: Mask, tail_sizes: Sizes | None = None
) -> FieldColumns:
    """Encode ``parts`` as the message in field ``number``; ``tail_sizes`` count bytes that follow
    them."""
    length = sum((part.size for part in parts), np.zeros(len(present), dtype=np.int64))
    if tail_sizes is not None:
        length = length + tail_sizes
    head = encode_constant(encode_tag(number, WireType.LENGTH), present)
    return (head, encode_varints(length, present), *parts)


FieldColumns: TypeAlias = tuple[FieldColumn, ...]


def join_rows(parts: Sequence[FieldColumn], tail: RaggedColumn | None = None) -> Bytes:
    """Concatenate rows: the bytes of the parts in order, then the tail."""
    rows = len(parts[0].size)
    width = sum(part.data.shape[1] for part in parts)
    data = np.empty((rows, width), dtype=np.uint8)
    valid = np.empty((rows, width), dtype=np.bool_)
    offset = 0
    for part in parts:
        part_width = part.data.shape[1]
        data[:, offset : offset + part_width] = part.data
        np.less(
            np.arange(part_width), part.size[:, None], out=valid[:, offset : offset + part_width]
        )
        offset += part_width
    fixed = data[valid]
    if tail is None or not len(tail.data):
        return fixed
    fixed_sizes = sum((part.size for part in parts), np.zeros(rows, dtype=np.int64))
    sizes = np.stack((fixed_sizes, tail.size), axis=1).ravel()
    is_tail = np.repeat(np.tile([False, True], rows), sizes)
    out = np.empty(len(is_tail), dtype=np.uint8)
    out[~is_tail] = fixed
    out[is_tail] = tail.data
    return out
