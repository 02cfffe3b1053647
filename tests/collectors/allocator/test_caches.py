from __future__ import annotations

import pytest

from tests.collectors.allocator.test_owners import run_text

PROGRAM = """
import torch
from collectors.allocator import holders, owners
from graphviz_dash.model.memory import Owner

torch.strided = "strided"

class Tensor(torch.Tensor):
    is_cuda, layout = True, torch.strided
    def untyped_storage(self): return self
    def data_ptr(self): return self.address
    def numel(self): return 1

def tensor(address):
    result = Tensor(1)
    result.address = address
    return result

torch._is_functional_tensor = lambda tensor: False

def build(path, **attributes):
    module, _, name = path.rpartition(".")
    base = type(name, (), {"__module__": module, "__qualname__": name})
    holder = type("Derived", (base,), {})()
    vars(holder).update(attributes)
    return holder
"""


def find_owners(body: str) -> str:
    return run_text(PROGRAM + body).strip()


@pytest.mark.parametrize(
    ("path", "attributes"),
    [
        ("sglang.srt.mem_cache.memory_pool.KVCache", "k_buffer=[cache], size=7"),
        ("transformers.cache_utils.CacheLayerMixin", "keys=cache"),
        (
            "transformers.generation.continuous_batching.cache.PagedAttentionCache",
            "key_cache=[cache], block_size=3",
        ),
        ("vllm.v1.worker.gpu.model_runner.GPUModelRunner", "kv_caches=[cache]"),
        ("vllm.v1.worker.gpu_model_runner.GPUModelRunner", "kv_caches=[(cache,)]"),
    ],
)
def test_tensors_of_engines_are_caches(path: str, attributes: str) -> None:
    body = f"""
cache, other = tensor(8), tensor(9)
holder = build("{path}", {attributes})
objects = owners.TrackedObjects([cache, other], [], [], [])
matching = owners.find_list(type(holder), objects)
matching.append(holder)
found = owners.find_owners(objects)
print(matching is objects.caches, found[8].value, found[9].value)
"""
    assert find_owners(body) == "True caches other tensors"


def test_other_tensors_of_a_vllm_runner_are_no_caches() -> None:
    body = """
inputs = tensor(8)
holder = build("vllm.v1.worker.gpu_model_runner.GPUModelRunner", input_ids=inputs)
objects = owners.TrackedObjects([inputs], [], [], [holder])
print(owners.find_owners(objects)[8].value)
"""
    assert find_owners(body) == "other tensors"


def test_a_class_of_the_same_name_is_no_cache() -> None:
    body = """
objects = owners.TrackedObjects([], [], [], [])
print(owners.find_list(type(build("game.KVCache")), objects))
"""
    assert find_owners(body) == "None"


def test_caches_of_a_killed_engine_are_found_through_its_objects() -> None:
    """The search among all objects comes at the end, which a killed process does not reach."""
    body = """
class Runner:
    pass
runner = Runner()
runner.pool = build("sglang.srt.mem_cache.memory_pool.KVCache", k_buffer=[tensor(8)])
direct = build("transformers.cache_utils.CacheLayerMixin", keys=tensor(9))
registry = holders.TensorHolders()
registry.start()
registry.add(runner)
registry.add(direct)
found = owners.find_owners(registry.find_objects())
print(found[8].value, found[9].value)
"""
    assert find_owners(body) == "caches caches"
