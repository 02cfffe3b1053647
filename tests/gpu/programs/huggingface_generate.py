"""A Llama of random weights generates tokens with a static cache, which transformers compiles."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
    prompt = torch.randint(2, 1024, (1, 16), device="cuda")
    with torch.no_grad():
        for _ in range(3):
            tokens = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=40,
                min_new_tokens=40,
                do_sample=False,
                cache_implementation="static",
            )
    print(tokens.shape, type(model.config).__name__)


if __name__ == "__main__":
    main()
