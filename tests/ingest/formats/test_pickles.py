from __future__ import annotations

import io
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats import pickles
from graphviz_dash.ingest.formats.pickles import read_pickle
from graphviz_dash.ingest.limits import Limits

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    | st.tuples(inner, inner, inner, inner),
    max_leaves=20,
)  # fmt: skip


def read(content: bytes, folder: Path, limits: Limits | None = None) -> Any:
    file = folder / "some.pickle"
    file.write_bytes(content)
    return read_pickle(file, limits or Limits())


class TestPlainData:
    @given(value=PLAIN, protocol=st.integers(3, 5))
    def test_as_pickle_itself_would(
        self, tmp_path_factory: pytest.TempPathFactory, value: Any, protocol: int
    ) -> None:
        content = pickle.dumps(value, protocol)
        assert read(content, tmp_path_factory.mktemp("plain")) == value

    def test_shared_and_circular_values(self, tmp_path: Path) -> None:
        inner: list[Any] = [1]
        value: dict[str, Any] = {"a": inner, "b": inner}
        inner.append(value)
        found = read(pickle.dumps(value), tmp_path)
        assert found["a"] is found["b"]
        assert found["a"][1] is found


class Command:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


def attacks(target: Path) -> dict[str, bytes]:
    call = f"touch {target}".encode()
    text = b"X" + len(call).to_bytes(4, "little") + call
    return {
        "reduce": pickle.dumps(Command(target)),
        "global": b"\x80\x02cos\nsystem\n" + text + b"\x85R.",
        "stack_global": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + text + b"\x85R.",
        "inst": b"\x80\x02(" + text + b"ios\nsystem\n.",
        "obj": b"\x80\x02(cos\nsystem\n" + text + b"o.",
        "newobj": b"\x80\x02cos\nsystem\n" + text + b"\x85\x81.",
        "newobj_ex": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + text + b"\x85}\x92.",
        "build": b"\x80\x02}}b.",
        "ext": b"\x80\x02\x82\x01.",
        "persid": b"\x80\x02Psome\n.",
        "binpersid": b"\x80\x02K\x01Q.",
        "reduce of data": b"\x80\x02" + text + b")R.",
        "next_buffer": b"\x80\x05\x97.",
    }


@pytest.mark.parametrize("name", sorted(attacks(Path())))
def test_pickles_that_could_run_code_are_refused(tmp_path: Path, name: str) -> None:
    target = tmp_path / "owned"
    content = attacks(target)[name]
    with pytest.raises(InputError, match=r"could run code|damaged pickle"):
        read(content, tmp_path)
    assert not target.exists()


def test_the_attack_would_have_worked(tmp_path: Path) -> None:
    """So that the test above can fail."""
    target = tmp_path / "owned"
    pickle.loads(attacks(target)["reduce"])
    assert target.exists()


def test_every_operation_that_is_known_makes_plain_data() -> None:
    known = (
        pickles._VALUE_OPCODES
        | pickles._STORE_OPCODES
        | pickles._FETCH_OPCODES
        | pickles._ADD_OPCODES
        | pickles._IGNORED_OPCODES
        | pickles._EMPTY_CONTAINERS.keys() | pickles._CONSTANTS.keys() | pickles._TUPLE_SIZES.keys()
        | {"MEMOIZE", "MARK", "STOP", "DICT", "LIST", "TUPLE", "FROZENSET", "POP", "POP_MARK"}
        | {"DUP"}
    )  # fmt: skip
    every = {opcode.name for opcode in pickletools.opcodes}
    calling = {
        *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"),
        *("PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"),
    }
    assert every - known == calling


@pytest.mark.parametrize(
    "content",
    [b"\x80\x04", b"\x80\x04.", b"\x80\x04N", b"\x80\x04u.", b"\x80\x04(.", b"\x80\x04h\x07.",
     b"\x80\x04}]N\x8c\x01as.", b"\x80\x04]K\x01\x61\x61.", b"\x80\x04\xff.", b"\x80\x04I\xff\n."],
)  # fmt: skip
def test_malformed_pickles_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError):
        read(content, tmp_path)


@given(junk=st.binary(max_size=200))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    folder = tmp_path_factory.mktemp("junk")
    try:
        value = read(b"\x80\x04" + junk, folder)
    except InputError:
        return
    assert repr(pickle.loads(b"\x80\x04" + junk)) == repr(value)


class TestLimits:
    def test_operations(self, tmp_path: Path) -> None:
        content = pickle.dumps(list(range(1000)))
        with pytest.raises(InputError, match="limit events"):
            read(content, tmp_path, Limits(events=100))

    def test_long_texts(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="limit string_length"):
            read(pickle.dumps("a" * 1000), tmp_path, Limits(string_length=100))

    def test_bytes(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="limit decompressed_bytes"):
            read(pickle.dumps("a" * 1000), tmp_path, Limits(decompressed_bytes=100))

    def test_absurd_numbers(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="number out of range"):
            read(pickle.dumps(1 << 5000), tmp_path)


def test_pickle_is_never_imported_by_readers() -> None:
    source = Path(pickles.__file__).read_text(encoding="utf-8")
    assert "import pickle\n" not in source
    assert "Unpickler" not in source
    names = [argument for _, argument, _ in pickletools.genops(io.BytesIO(pickle.dumps(1)))]
    assert 1 in names
