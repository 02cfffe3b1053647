"""Greedy decoding of a small Llama with transformers, its forward under torch.compile, as one
writes it first, and with two mends.

``0``: a cache for each text, which is made where the prompt is read, within the compiled function,
so that each token writes to an argument. ``1``: one cache, made before. ``2``: each token is a step
of its own for torch, so that all of them replay one graph; before, a text was one step, and each of
its tokens had a graph.
"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

from collectors import step as step_ended

HEADS, WIDTH, LENGTH, TOKENS = 4, 256, 64, 10
fixed = int(sys.argv[1])
device = "cuda" if torch.cuda.is_available() else "cpu"


def cache_of(config: LlamaConfig) -> StaticCache:
    """An empty cache."""
    cache = StaticCache(config=config, max_cache_len=LENGTH)
    if fixed >= 1:
        cache.early_initialization(1, HEADS, WIDTH // HEADS, torch.bfloat16, torch.device(device))
    return cache


torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=WIDTH,
    intermediate_size=688,
    num_hidden_layers=2,
    num_attention_heads=HEADS,
    num_key_value_heads=HEADS,
    vocab_size=1000,
    max_position_embeddings=512,
)
model = LlamaForCausalLM(config).to(device, torch.bfloat16).eval()
how = {"mode": "reduce-overhead"} if device == "cuda" else {"backend": "eager"}
model.forward = torch.compile(model.forward, **how)
prompt = torch.randint(0, 1000, (1, 8), device=device)
kept = cache_of(config)
with torch.no_grad():
    for _ in range(14):
        if fixed < 1:
            kept = cache_of(config)
        else:
            kept.reset()
        token = prompt
        for at in range(TOKENS):
            if fixed >= 2 or not at:
                torch.compiler.cudagraph_mark_step_begin()
            logits = model(token, past_key_values=kept, use_cache=True).logits
            token = logits[:, -1:].argmax(-1).clone()
            step_ended()
