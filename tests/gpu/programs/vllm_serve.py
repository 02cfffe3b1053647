"""Serves three shapes of traffic by vLLM's offline engine, as its users call it: a Qwen3 of eight
layers with random weights. Nothing in it knows of graphs or of us."""

import json
import os
import random
import tempfile
from pathlib import Path

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

from engine_traffic import MODEL, make_rounds
from vllm import LLM, SamplingParams


def main() -> None:
    """Serve each round of requests three times."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(MODEL))
        engine = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            max_model_len=2048,
            max_num_seqs=32,
            max_num_batched_tokens=1024,
            kv_cache_memory_bytes=4 << 30,
            seed=0,
        )
    draw = random.Random(0)
    for requests in 3 * make_rounds():
        prompts = [
            {"prompt_token_ids": [draw.randrange(1000, 30000) for _ in range(length)]}
            for length, _ in requests
        ]
        params = [
            SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True, detokenize=False)
            for _, count in requests
        ]
        engine.generate(prompts, params, use_tqdm=False)


if __name__ == "__main__":
    main()
