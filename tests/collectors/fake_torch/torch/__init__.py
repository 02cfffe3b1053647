"""A torch with the surface that the recorder touches, for tests without torch or a GPU.

Includes ``cuda.bindings``; every captured graph has two empty nodes.
"""

from __future__ import annotations

import _thread
import ctypes
import json
import os
import sys
import threading
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial, wraps
from threading import get_ident
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

__version__ = "2.11.0+fake"
SYNCHRONISED = [0]
ALLOCATIONS = [0]
capturing = False
context_made = False


class _Anything:
    """An object that can be called, entered, subclassed and counted, as can its attributes and
    results. unittest.mock has one, but its import takes longer than all the rest."""

    def __init__(self, *_: Any, **options: Any) -> None:
        vars(self).update(options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = held = _Anything()
        return held

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self.return_value

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 1

    __index__ = __int__


class _Fake(ModuleType):
    """A module whose other names can all be called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


def _module(name: str, **content: Any) -> _Fake:
    module = _Fake(f"torch.{name}")
    vars(module).update(content, __path__=[])
    sys.modules[module.__name__] = module
    parent, _, last = name.rpartition(".")
    holder = sys.modules[f"torch.{parent}" if parent else "torch"]
    setattr(holder, last, module)
    return module


class AcceleratorError(RuntimeError):
    """The exception of torch for a CUDA error."""


class _CUDAGraph:
    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        global capturing, context_made  # noqa: PLW0603  # the state of a device
        capturing = context_made = True

    def capture_end(self) -> None:
        global capturing  # as above
        capturing, was = False, capturing
        if was == "broken":
            raise AcceleratorError("CUDA error: operation failed\nmore lines")

    def replay(self) -> None:
        if KINETO:
            KINETO[0].append({"ph": "X", "name": "kernel", "cat": "kernel", "ts": 1, "dur": 1})

    def pool(self) -> tuple[int, int]:
        return (0, 1)


class CUDAGraph(_CUDAGraph):
    """As torch's: Python methods that call those below."""

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        super().capture_begin(*args, **kwargs)

    def capture_end(self) -> None:
        super().capture_end()

    def replay(self) -> None:
        super().replay()


class AnywhereGraph(_CUDAGraph):
    """The graph of torch for any accelerator since 2.12, which gets its pool at construction."""

    def __init__(self, pool: tuple[int, int] | None = None) -> None:
        self.graph_pool = pool

    def capture_begin(self) -> None:
        super().capture_begin(pool=self.graph_pool)

    def capture_end(self) -> None:
        super().capture_end()

    def replay(self) -> None:
        super().replay()

    def __enter__(self) -> None:
        self.capture_begin()

    def __exit__(self, *_error: object) -> None:
        self.capture_end()


class Tensor:
    """A tensor as far as its shape goes."""

    layout = None
    is_cuda = False

    def __init__(self, *shape: int) -> None:
        self.shape = shape


@contextmanager
def graph(captured: CUDAGraph) -> Any:
    captured.capture_begin()
    try:
        yield
    finally:
        captured.capture_end()


def synchronize() -> None:
    SYNCHRONISED[0] += 1


_hooks: OrderedDict[int, Any] = OrderedDict()


def _register(hook: Any) -> Any:
    number = max(_hooks, default=0) + 1
    _hooks[number] = hook
    return SimpleNamespace(remove=lambda: _hooks.pop(number))


class SGD:
    """An optimizer with the global hook after its step."""

    def step(self) -> None:
        for hook in _hooks.values():
            hook(self, (), {})


class Parameter(Tensor):
    """nn.Parameter as far as its shape goes."""


MODULE_HOOKS: list[Any] = []
"""Hooks of the registration of submodules and parameters."""


def _register_module_hook(hook: Any) -> Any:
    MODULE_HOOKS.append(hook)
    return SimpleNamespace(remove=lambda: MODULE_HOOKS.remove(hook))


class Module:
    """nn.Module as far as calls and attributes go."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, Module | Parameter):
            for hook in dict.fromkeys(MODULE_HOOKS):
                hook(self, name, value)

    def __call__(self, *args: Any) -> Any:
        return self.forward(*args)


EVENTS_BUILT = [0]
"""Profilers that built Python objects of their events."""


PROFILED: dict[int, list[dict[str, Any]]] = {}
"""Events of the profilers that run, by thread."""
KINETO: list[list[dict[str, Any]]] = []
"""Events of the profiler that started last, which gets those of the GPU. As in Kineto, the end of
any profiler ends it."""
PROFILERS = [0]
"""Profilers that were started."""


def _prepare_profiler(*_arguments: object) -> None:
    """As torch's: Kineto warms up, and cancels the session of another thread by way of this one."""
    if KINETO:
        _disable_profiler()


def _enable_profiler(*_arguments: object) -> None:
    if get_ident() in PROFILED:
        raise RuntimeError("Profiler is already enabled on this thread.")
    PROFILERS[0] += 1
    PROFILED[get_ident()] = []
    KINETO[:] = [PROFILED[get_ident()]]


def _disable_profiler() -> Any:
    if get_ident() not in PROFILED:
        raise RuntimeError("Can't disable Kineto profiler when it's not running")
    events = PROFILED.pop(get_ident())
    KINETO.clear()
    _start_teardown()
    return SimpleNamespace(save=partial(_save, events), events=lambda: events)


def _save(events: list[dict[str, Any]], path: str) -> None:
    import gzip

    with (gzip.open if path.endswith(".gz") else open)(path, "wt") as file:
        json.dump({"traceEvents": events}, file)


class _Profile:
    """Profiler of torch.autograd.profiler and torch.profiler, which share this interface."""

    def __init__(self, **_options: Any) -> None:
        pass

    def start(self) -> None:
        functions = sys.modules["torch.autograd.profiler"]
        functions._prepare_profiler()
        functions._enable_profiler()

    def stop(self) -> None:
        EVENTS_BUILT[0] += 1
        self.result = sys.modules["torch.autograd.profiler"]._disable_profiler()

    def events(self) -> Any:
        return self.result.events()

    def export_chrome_trace(self, path: str) -> None:
        self.result.save(path)

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


TEARDOWNS: list[str | None] = []
"""TEARDOWN_CUPTI in the C environment each time that a profiler stopped."""
_teardown = threading.Event()


def _start_teardown() -> None:
    """As Kineto: a thread detaches CUPTI at the end of the next call into the CUDA runtime."""
    value = ctypes.CDLL(None).getenv
    value.restype = ctypes.c_char_p
    asked = value(b"TEARDOWN_CUPTI")
    TEARDOWNS.append(asked.decode() if asked else None)
    if asked == b"1":
        _teardown.clear()
        _thread.start_new_thread(_teardown.wait, ())


def current_device() -> int:
    _teardown.set()
    return 0


class record_function:  # noqa: N801  # torch's name
    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._events = PROFILED.get(get_ident())

    def __exit__(self, *_error: object) -> None:
        now = PROFILED.get(get_ident())
        if now is not self._events and now is not None:
            raise MemoryError("a range of an earlier profiler ends in freed memory")
        if now is not None:
            now.append({"ph": "X", "name": self._name, "cat": "user_annotation", "ts": 1, "dur": 1})


def compile(model: Any, **_options: Any) -> Any:  # torch's name
    if not isinstance(model, FunctionType):
        return model

    def compile_frame() -> None: ...

    fn = model

    @wraps(fn)
    def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
        sys.modules["torch._dynamo.eval_frame"]._callback_from_stance(compile_frame)
        return fn(*args, **kwargs)

    return compile_wrapper


def _make_context() -> None:
    global context_made  # noqa: PLW0603  # the state of a device
    context_made = True


_properties = SimpleNamespace(
    name="Fake GPU", major=9, minor=0, total_memory=1 << 30, multi_processor_count=2
)
_cuda = _module(
    "cuda",
    CUDAGraph=CUDAGraph,
    graph=graph,
    synchronize=synchronize,
    is_available=lambda: True,
    is_initialized=lambda: context_made,
    current_device=current_device,
    memory_stats=lambda: {"allocation.all.allocated": ALLOCATIONS[0]},
    memory_stats_as_nested_dict=lambda: {
        f"{name}_bytes": {"all": {"current": 1024}} for name in ("reserved", "allocated", "active")
    },
    device_count=lambda: 1,
    get_device_properties=lambda _device: _properties,
    current_stream=lambda: SimpleNamespace(cuda_stream=1),
    _lazy_init=_make_context,
    set_device=lambda _device: None,
    mem_get_info=lambda: (1 << 29, 1 << 30),
    memory_snapshot=list,
    is_current_stream_capturing=lambda: capturing,
    **{
        name: lambda: 1024
        for name in (
            "max_memory_allocated",
            "max_memory_reserved",
            "memory_allocated",
            "memory_reserved",
        )
    },
)
_module("cuda.graphs", CUDAGraph=CUDAGraph)
_module("cuda.memory", _snapshot=lambda: {"segments": []})
_module("accelerator", Graph=AnywhereGraph)
_module("_C", _CUDAGraph=_CUDAGraph, _cuda_getCurrentRawStream=lambda _device: 1)
_module("_C._cudart", cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0)
_module("version", cuda=os.environ.get("FAKE_CUDA", "13.0") or None)
_module("compiler", is_compiling=lambda: False)
_module("_dynamo")
_eval_frame = _module("_dynamo.eval_frame", _callback_from_stance=lambda callback: callback)
_module("export", export=lambda model: model)
_module(
    "nn",
    Module=Module,
    Parameter=Parameter,
    ModuleList=type("ModuleList", (list,), {}),
    Sequential=type("Sequential", (list,), {}),
)
_module("nn.modules")
_module(
    "nn.modules.module",
    Module=Module,
    register_module_module_registration_hook=_register_module_hook,
    register_module_parameter_registration_hook=_register_module_hook,
)
_module("optim", SGD=SGD, Optimizer=type("Optimizer", (), {}))
_module("optim.optimizer", register_optimizer_step_post_hook=_register)
_profiler_functions = {
    "_prepare_profiler": _prepare_profiler,
    "_enable_profiler": _enable_profiler,
    "_disable_profiler": _disable_profiler,
}
_module(
    "autograd",
    _profiler_enabled=lambda: get_ident() in PROFILED,
    **_profiler_functions,
)
_module(
    "autograd.profiler", record_function=record_function, profile=_Profile, **_profiler_functions
)
_module(
    "profiler",
    profile=_Profile,
    ProfilerActivity=SimpleNamespace(CPU=0, CUDA=1),
    record_function=record_function,
)
_module("overrides", TorchFunctionMode=type("TorchFunctionMode", (), {}))
_module("distributed", is_available=lambda: False)
_module("utils")
_module("utils.hooks", RemovableHandle=object)


class _Status(int):
    name = "CUDA_SUCCESS"


class _Enum(int):
    name = "CU_STREAM_CAPTURE_STATUS_INVALIDATED"


_OK, _ACTIVE, _BROKEN = _Status(0), _Enum(1), _Enum(2)
_EMPTY = SimpleNamespace(name="CU_GRAPH_NODE_TYPE_EMPTY")


def _capture_info(_stream: Any) -> Any:
    return (_OK, _BROKEN if capturing == "broken" else _ACTIVE, 1, 7, [], [], 0)


class _Driver(_Fake):
    """A driver whose every other call succeeds and answers 0."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(return_value=(_OK, 0))


_driver = _Driver("cuda.bindings.driver")
vars(_driver).update(
    CUgraph=int,
    CUgraphNode=int,
    CUstream=int,
    CUstreamCaptureStatus=SimpleNamespace(CU_STREAM_CAPTURE_STATUS_ACTIVE=_ACTIVE),
    cuStreamGetCaptureInfo=_capture_info,
    cuThreadExchangeStreamCaptureMode=lambda mode: (_OK, mode),
    cuGraphGetNodes=lambda _graph, count: (_OK, [11, 12][:count], 2),
    cuGraphNodeGetDependencies_v2=lambda _node, _count: (_OK, [], [], 0),
    cuGraphNodeGetType=lambda _node: (_OK, _EMPTY),
    cuDriverGetVersion=lambda: (_OK, 13000),
    cuMemGetInfo=lambda: (_OK, 1 << 29, 1 << 30),
    cuDevicePrimaryCtxGetState=lambda _device: (_OK, 0, int(context_made)),
    cuModuleGetLoadingMode=lambda: (_OK, SimpleNamespace(name="CU_MODULE_LAZY_LOADING")),
    CUevent_flags=SimpleNamespace(CU_EVENT_DEFAULT=0),
    cuEventCreate=lambda _flags: (_OK, 5),
    cuEventRecord=lambda _event, _stream: (_OK,),
    cuEventQuery=lambda _event: (_OK,),
    cuEventElapsedTime=lambda _begin, _end: (_OK, 0.25),
)
_bindings = _Fake("cuda.bindings")
vars(_bindings).update(driver=_driver, __path__=[])
_cuda_python = _Fake("cuda")
vars(_cuda_python).update(bindings=_bindings, __path__=[])
sys.modules |= {
    "cuda": _cuda_python,
    "cuda.bindings": _bindings,
    "cuda.bindings.driver": _driver,
    "cuda.bindings.runtime": _Fake("cuda.bindings.runtime"),
}
