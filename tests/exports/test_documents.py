from __future__ import annotations

import msgspec
import pytest
from msgspec import Struct, field

from graphviz_dash.exports.documents.envelope import add_version
from graphviz_dash.exports.documents.values import Document, Ns, Number, WholeNs, build
from graphviz_dash.model.absence import Fact, Missing

MISSING = Missing(Fact.STEP_TIMES, "nothing was replayed")


class Device(Struct):
    name: str
    clock: float | None


class Result(Struct):
    step_ns: float | Missing
    shares: tuple[float, ...]
    device: Device | None


class DeviceDocument(Document, frozen=True):
    name: str
    clock: Number | None


class ResultDocument(Document, frozen=True):
    step_ns: Ns | None = field(name="step")
    step_ns_reason: str | None = field(name="reason")
    shares: list[float]
    device: DeviceDocument | None


def convert(result: Result, **computed: object) -> object:
    return msgspec.to_builtins(build(ResultDocument, result, **computed))


def test_attributes_become_fields_at_all_levels() -> None:
    assert convert(Result(1.5, (1.0,), Device("H100", 2.0))) == {
        "step": 1.5,
        "reason": None,
        "shares": [1.0],
        "device": {"name": "H100", "clock": 2},
    }


def test_a_missing_value_is_null_with_its_reason() -> None:
    document = convert(Result(MISSING, (), None))
    assert document == {"step": None, "reason": MISSING.reason, "shares": [], "device": None}


def test_computed_fields_take_precedence() -> None:
    document = convert(Result(1.5, (), None), step_ns=2.5, shares=[3.0])
    assert document == {"step": 2.5, "reason": None, "shares": [3.0], "device": None}


def test_whole_nanoseconds_have_no_fraction() -> None:
    class Times(Document, frozen=True):
        exact: Ns
        rounded: WholeNs

    document = build(Times, exact=127.0, rounded=126.6)
    assert msgspec.json.encode(document) == b'{"exact":127,"rounded":127}'


def test_an_unknown_source_has_unknown_attributes() -> None:
    assert build(DeviceDocument, None, name="unknown") == DeviceDocument(name="unknown", clock=None)


@pytest.mark.parametrize("computed", [{"clock": 1.0}, {"name": 1, "clock": None}])
def test_absent_and_wrong_fields_are_refused(computed: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        build(DeviceDocument, **computed)


def test_a_document_starts_with_its_schema_and_version() -> None:
    document = add_version("ls", DeviceDocument(name="H100", clock=None))
    assert list(document.items())[:2] == [("schema", "graphviz-dash/ls"), ("version", 2)]
    assert document["name"] == "H100"
