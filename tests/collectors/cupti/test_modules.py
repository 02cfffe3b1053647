from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pytest

from collectors.cupti import modules
from collectors.cupti.cubin import LaunchControl, find_launch_control
from collectors.cupti.modules import watch_modules

CUBINS = Path(__file__).parents[2] / "cases" / "launch-control"
CONTROLS = {
    "plain": LaunchControl(waits=False, triggers=False),
    "waits": LaunchControl(waits=True, triggers=False),
    "triggers": LaunchControl(waits=False, triggers=True),
    "both": LaunchControl(waits=True, triggers=True),
}


@pytest.mark.parametrize("name", ["sm_90", "sm_100"])
def test_kernels_with_and_without_the_instructions(name: str) -> None:
    assert find_launch_control((CUBINS / f"{name}.cubin").read_bytes()) == CONTROLS


def test_damaged_and_foreign_files_are_not_read() -> None:
    cubin = (CUBINS / "sm_90.cubin").read_bytes()
    assert find_launch_control(b"") == {}
    assert find_launch_control(b"\x7fELF\x02\x01" + bytes(10)) == {}
    other_machine = cubin[:0x12] + b"\x3e\x00" + cubin[0x14:]
    assert find_launch_control(other_machine) == {}
    assert find_launch_control(cubin[:0x3E] + b"\xff\x7f" + cubin[0x40:]) == {}
    for length in range(0, len(cubin), 97):
        find_launch_control(cubin[:length])


class _Cupti:
    """Calls the subscriber back like CUPTI while a module is loaded."""

    def __init__(self, refusal: int = 0) -> None:
        self.refusal = refusal
        self.enabled: list[tuple[int, int]] = []
        self.unsubscribed = False
        self._callback: Any = None

    def cuptiSubscribe(self, _subscriber: Any, callback: Any, _user: Any) -> int:  # noqa: N802
        self._callback = callback
        return self.refusal

    def cuptiEnableCallback(  # noqa: N802
        self, enable: Any, _subscriber: Any, domain: int, callback_id: Any
    ) -> int:
        assert enable.value == 1
        self.enabled.append((domain, callback_id.value))
        return 0

    def cuptiUnsubscribe(self, _subscriber: Any) -> int:  # noqa: N802
        self.unsubscribed = True
        return 0

    def load(self, cubin: bytes) -> None:
        content = ctypes.create_string_buffer(cubin, len(cubin))
        module = modules._ModuleData(1, len(cubin), ctypes.addressof(content))
        data = modules._ResourceData(None, None, ctypes.addressof(module))
        self._callback(None, 3, 6, ctypes.addressof(data))


def test_modules_are_read_while_they_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    cupti = _Cupti()
    monkeypatch.setattr(modules, "_load_library", lambda: cupti)
    with watch_modules() as kernels:
        assert kernels == {}
        cupti.load((CUBINS / "sm_90.cubin").read_bytes())
        cupti.load(b"no code")
    assert kernels == CONTROLS
    # CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_MODULE_LOADED
    assert cupti.enabled == [(3, 6)]
    assert cupti.unsubscribed


def test_a_forked_child_leaves_cupti_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cupti = _Cupti()
    monkeypatch.setattr(modules, "_load_library", lambda: cupti)
    with watch_modules():
        monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not cupti.unsubscribed


def test_kernels_of_one_name_that_differ_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    cupti = _Cupti()
    monkeypatch.setattr(modules, "_load_library", lambda: cupti)
    cubin = (CUBINS / "sm_90.cubin").read_bytes()
    with watch_modules() as kernels:
        cupti.load(cubin)
        # Another module, in which a kernel of the same name does not wait.
        cupti.load(cubin.replace(b".text.plain\0", b".text.waits\0"))
    assert kernels["waits"] is None
    assert kernels["both"] == CONTROLS["both"]


def test_without_cupti_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "_load_library", lambda: None)
    with watch_modules() as kernels:
        pass
    refusing = _Cupti(refusal=39)
    monkeypatch.setattr(modules, "_load_library", lambda: refusing)
    with watch_modules() as others:
        pass
    assert kernels == others == {}
    assert not refusing.unsubscribed
