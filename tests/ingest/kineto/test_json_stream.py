from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphviz_dash.ingest.byte_stream import ByteStream
from graphviz_dash.ingest.kineto.json_stream import ArrayReader
from graphviz_dash.ingest.limits import DEFAULT_LIMITS, Limits

_strict = msgspec.json.Decoder(list[Any]).decode


def pieces(
    path: Path, chunk: int, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[list[Any]], dict[str, Any]]:
    with ByteStream(path, limits, chunk) as stream:
        reader: ArrayReader[Any] = ArrayReader(stream, "events", _strict, json.loads, limits)
        return list(reader), reader.fields


# Text that looks like a cut, like an end, like the key: everything a wrong split could fall for.
_TEXTS = st.sampled_from(['}, {"', "}]", "}, {", '"', "\\", "events", '"events": [', "", "é🚀"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=4)
_FIELDS = st.dictionaries(_TEXTS.filter(lambda text: text != "events"), _VALUES, max_size=3)


@settings(max_examples=120, deadline=None)
@given(
    before=_FIELDS,
    items=st.lists(_OBJECTS | _VALUES, max_size=6),
    after=_FIELDS,
    chunk=st.integers(1, 90),
    indent=st.sampled_from([None, 0, 1, 7]),
    tight=st.booleans(),
)
def test_any_document_reads_as_the_standard_library_reads_it(
    before: dict[str, Any],
    items: list[Any],
    after: dict[str, Any],
    chunk: int,
    indent: int | None,
    tight: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    document = before | {"events": items} | after
    separators = (",", ":") if tight else None
    text = json.dumps(document, indent=indent, separators=separators, ensure_ascii=False)
    path = tmp_path_factory.getbasetemp() / "document.json"
    path.write_text(text)
    found, fields = pieces(path, chunk)
    assert [item for piece in found for item in piece] == items
    assert fields == before | after


def test_a_large_array_comes_in_many_pieces(tmp_path: Path) -> None:
    items = [{"index": index, "text": "x" * 50} for index in range(1_000)]
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"events": items}))
    found, _ = pieces(path, 4_096)
    assert [item for piece in found for item in piece] == items
    assert len(found) > 10
    assert max(map(len, found)) < 150


def test_an_element_much_longer_than_a_chunk(tmp_path: Path) -> None:
    inner = [{"a": index} for index in range(20_000)]  # thousands of places that look like cuts
    items = [{"a": 0}, {"long": inner}, {"b": 1}]
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"events": items}))
    found, _ = pieces(path, 1_024)
    assert [item for piece in found for item in piece] == items


def test_many_elements_behind_one_with_many_false_cuts(tmp_path: Path) -> None:
    inner = [{"a": index} for index in range(300)]
    items: list[Any] = [{"first": 1}, {"nested": inner}] * 50
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"events": items}))
    found, _ = pieces(path, 8_000)
    assert [item for piece in found for item in piece] == items
    assert len(found) > 5


def test_fields_behind_the_array_may_hold_arrays_of_objects(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    devices = [{"id": index} for index in range(200)]
    path.write_text(json.dumps({"events": [{"a": 1}], "devices": devices, "more": {"events": []}}))
    for chunk in (7, 100, 1 << 20):
        found, fields = pieces(path, chunk)
        assert [item for piece in found for item in piece] == [{"a": 1}]
        assert fields == {"devices": devices, "more": {"events": []}}


def test_a_nested_key_of_the_same_name_is_not_the_array(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text('{"meta": {"events": [1]}, "name": "events", "events": [{"a": 2}]}')
    found, fields = pieces(path, 5)
    assert found[-1] == [{"a": 2}]
    assert fields == {"meta": {"events": [1]}, "name": "events"}


def test_a_long_field_before_the_array(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text(json.dumps({"text": '\\"' * 50_000, "events": [{"a": 1}]}))
    found, fields = pieces(path, 1_000)
    assert found[-1] == [{"a": 1}]
    assert len(fields["text"]) == 100_000


def test_damage_is_told_without_reading_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    good = [json.dumps({"a": index}) for index in range(5_000)]
    good[100] = '{"a": oops}'
    path.write_text('{"events": [' + ", ".join(good) + "]}")
    with ByteStream(path, DEFAULT_LIMITS, 4_096) as stream:
        reader: ArrayReader[Any] = ArrayReader(
            stream, "events", _strict, json.loads, DEFAULT_LIMITS
        )
        assert [item for piece in reader for item in piece] == [{"a": i} for i in range(100)]
        assert reader.damage is not None
        assert "not JSON at byte" in reader.damage.description
        assert stream._file.tell() < 20_000
