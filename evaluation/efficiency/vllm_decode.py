"""Count the work of a decode step of vLLM, like :mod:`evaluation.efficiency.count`.

    python -m evaluation.efficiency.vllm_decode OUT --trace
    ncu OPTIONS --metrics BYTES,FLOPS --log-file OUT/bytes.csv \\
        python -m evaluation.efficiency.vllm_decode OUT
    python -m evaluation.efficiency.join_counters OUT evaluation/data/efficiency

Two layers of a Qwen3 model with random weights decode 16 sequences of about 208 tokens, without
graphs. Needs vLLM, no network.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import torch
from cuda.bindings import runtime

from collectors.ceilings.kernels import CeilingKernels
from evaluation.efficiency.record_cases import WARMUP_STEPS, trace_step

NAME: Final = "vllm_decode"
_SEQUENCES: Final = 16
_PROMPT: Final = 200
_DECODE_STEPS: Final = 8
_VOCABULARY: Final = 32_000
_ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}
_MODEL: Final = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 2,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000,
    "tie_word_embeddings": True,
}


def start_engine() -> Any:
    """Start vLLM with a batch of sequences that decode."""
    from vllm import LLM, SamplingParams

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(_MODEL))
        engine = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            max_model_len=2048,
            max_num_seqs=2 * _SEQUENCES,
            max_num_batched_tokens=4096,
            gpu_memory_utilization=0.2,
            kv_cache_memory_bytes=1 << 30,
            seed=0,
            disable_log_stats=True,
            enforce_eager=True,
        ).llm_engine
    options = SamplingParams(temperature=0.0, max_tokens=64, ignore_eos=True, detokenize=False)
    for number in range(_SEQUENCES):
        prompt = [(7 * number + place) % _VOCABULARY for place in range(_PROMPT)]
        engine.add_request(str(number), {"prompt_token_ids": prompt}, options)
    for _ in range(_DECODE_STEPS):
        engine.step()
    torch.cuda.synchronize()
    return engine


def main() -> None:
    """Count or trace one step; write its name to ``OUT/programs.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ.update(_ENVIRONMENT)
    engine = start_engine()
    if options.trace:
        trace_step(engine.step, options.out / f"{NAME}.json.gz")
    else:
        for _ in range(WARMUP_STEPS):
            engine.step()
        torch.cuda.synchronize()
        marks = CeilingKernels()
        runtime.cudaProfilerStart()
        marks.launch("empty", 1)
        engine.step()
        torch.cuda.synchronize()
        runtime.cudaProfilerStop()
    (options.out / "programs.json").write_text(json.dumps([NAME]))


if __name__ == "__main__":
    main()
