"""Greedy decoding of a small Llama with transformers, its forward under torch.compile, as one
writes it first, and with two mends.

``0``: the cache grows by a token each time, so that each length has a graph of its own. ``1``: the
cache has one size, but is made where the prompt is read, in the compiled function, so that torch
takes it for an argument that is written to. ``2``: the cache is made before.
"""

import sys

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache

from collectors import step as step_ended

HEADS, WIDTH, LENGTH, TOKENS = 4, 256, 64, 10
mended = int(sys.argv[1])


def cache_of(config: LlamaConfig) -> DynamicCache | StaticCache:
    """An empty cache."""
    if mended < 1:
        return DynamicCache(config=config)
    cache = StaticCache(config=config, max_cache_len=LENGTH)
    if mended >= 2:
        cache.early_initialization(1, HEADS, WIDTH // HEADS, torch.bfloat16, torch.device(device))
    return cache


device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=WIDTH,
    intermediate_size=688,
    num_hidden_layers=4,
    num_attention_heads=HEADS,
    num_key_value_heads=HEADS,
    vocab_size=1000,
    max_position_embeddings=512,
)
model = LlamaForCausalLM(config).to(device, torch.bfloat16).eval()
how = {"mode": "reduce-overhead"} if device == "cuda" else {"backend": "eager"}
model.forward = torch.compile(model.forward, dynamic=mended < 1 or None, **how)
prompt = torch.randint(0, 1000, (1, 8), device=device)
kept = cache_of(config)
with torch.no_grad():
    for _ in range(14):
        # What a graph returned is read until the last token is there.
        torch.compiler.cudagraph_mark_step_begin()
        if mended < 2:
            kept = cache_of(config)
        else:
            kept.reset()
        token = prompt
        for _ in range(TOKENS):
            logits = model(token, past_key_values=kept, use_cache=True).logits
            token = logits[:, -1:].argmax(-1).clone()
            step_ended()
