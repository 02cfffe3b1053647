"""Serves requests by transformers' own continuous batching, as its users call it: a Llama of random
weights, requests of many lengths. Nothing in it knows of graphs or of us."""

import argparse
import random
import time

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.generation.configuration_utils import ContinuousBatchingConfig

SHAPES = {
    "mixed": ([8, 20, 50, 120, 200], 60, 96),
    "decode": ([4, 8, 16], 160, 64),
    "prefill": ([150, 200, 250], 8, 96),
}
"""Lengths of prompts, tokens that are generated for each, and how many requests there are."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, default="mixed")
    parser.add_argument("--interval", type=int, default=32, help="what tokens are padded to")
    parser.add_argument("--asynchronous", action="store_true")
    asked = parser.parse_args()
    torch.manual_seed(0)
    draw = random.Random(0)
    config = LlamaConfig(
        vocab_size=4096,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).cuda().bfloat16().eval()
    prompts, new_tokens, count = SHAPES[asked.shape]
    requests = [[draw.randrange(4096) for _ in range(draw.choice(prompts))] for _ in range(count)]
    began = time.perf_counter()
    results = model.generate_batch(
        requests,
        generation_config=GenerationConfig(
            max_new_tokens=new_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
        ),
        continuous_batching_config=ContinuousBatchingConfig(
            use_cuda_graph=True,
            q_padding_interval_size=asked.interval,
            kv_padding_interval_size=4096,
            max_batch_tokens=256,
            num_blocks=512,
            block_size=32,
            use_async_batching=asked.asynchronous,
        ),
    )
    tokens = sum(len(result.generated_tokens) for result in results.values())
    took = time.perf_counter() - began
    print(f"served {len(results)} requests, {tokens:,} tokens in {took:.2f} s")


if __name__ == "__main__":
    main()
