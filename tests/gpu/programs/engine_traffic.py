"""Traffic for inference engines: one large batch, a chat of few requests, and long documents."""

import random

MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 8,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
    "vocab_size": 32000,
}
"""Configuration of the model."""


def make_rounds() -> list[list[tuple[int, int]]]:
    """Make rounds of requests: the tokens of the prompt and the tokens to generate of each."""
    batch, chat, documents = (random.Random(name) for name in ("batch", "chat", "documents"))
    rounds = [[(batch.randrange(8, 400), batch.randrange(16, 96)) for _ in range(120)]]
    for count in (3, 7, 11, 20, 5, 26, 2, 38):
        rounds.append([(chat.randrange(8, 40), chat.randrange(24, 64)) for _ in range(count)])
    for _ in range(2):
        rounds.append(
            [(documents.randrange(300, 1500), documents.randrange(4, 12)) for _ in range(32)]
        )
    return rounds
