"""Serves requests by transformers' own continuous batching, as its users call it: a Llama of random
weights, requests of many lengths. Nothing in it knows of graphs or of us."""

import argparse
import random
import time

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

MODELS = {
    "small": {
        "vocab_size": 4096,
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
    "large": {
        "vocab_size": 128256,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 32,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
    },
}
"""A toy, whose steps take longer in Python than on the GPU; and 32 of the 80 layers of a Llama of
70 billion, 59 GB in bfloat16."""

CACHES = {"small": (512, 4096), "large": (256, 8192)}
"""Blocks of the cache, and the padded number of tokens."""

SHAPES = {
    ("small", "mixed"): ([8, 20, 50, 120, 200], (60, 60), 96),
    ("small", "decode"): ([4, 8, 16], (160, 160), 64),
    ("small", "prefill"): ([150, 200, 250], (8, 8), 96),
    ("large", "mixed"): ([4, 10, 20, 60], (10, 90), 230),
    ("large", "decode"): ([4, 8, 16], (10, 120), 220),
    ("large", "prefill"): ([150, 200, 250], (20, 60), 160),
}
"""Lengths of prompts, the least and the most tokens that are generated for each, and how many
requests there are."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--shape", choices=["mixed", "decode", "prefill"], default="mixed")
    parser.add_argument("--interval", type=int, default=32, help="what tokens are padded to")
    parser.add_argument("--asynchronous", action="store_true")
    asked = parser.parse_args()
    torch.manual_seed(0)
    draw = random.Random(0)
    config = LlamaConfig(**MODELS[asked.model], attn_implementation="sdpa")
    # On the GPU from the start: a CPU takes minutes for the weights of the large one.
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    prompts, new_tokens, count = SHAPES[asked.model, asked.shape]
    requests = [
        ([draw.randrange(4096) for _ in range(draw.choice(prompts))], draw.randint(*new_tokens))
        for _ in range(count)
    ]
    blocks, cache_interval = CACHES[asked.model]
    began = time.perf_counter()
    results = []
    with model.continuous_batching_context_manager(
        generation_config=GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0),
        continuous_batching_config=ContinuousBatchingConfig(
            use_cuda_graph=True,
            q_padding_interval_size=asked.interval,
            kv_padding_interval_size=cache_interval,
            max_batch_tokens=256,
            max_requests_per_batch=256,
            num_blocks=blocks,
            block_size=32,
            use_async_batching=asked.asynchronous,
        ),
    ) as manager:
        for prompt, most in requests:
            manager.add_request(prompt, max_new_tokens=most, eos_token_id=-1)
        while len(results) < count and manager.is_running():
            result = manager.get_result(timeout=1)
            if result is not None and result.is_finished():
                results.append(result)
    tokens = sum(len(result.generated_tokens) for result in results)
    took = time.perf_counter() - began
    print(f"served {len(results)} requests, {tokens:,} tokens in {took:.2f} s")


if __name__ == "__main__":
    main()
