"""Serves three shapes of traffic by SGLang's offline engine, as its users call it: a Qwen3 of eight
layers with random weights, in a spawned scheduler. Nothing in it knows of graphs or of us."""

import json
import random
import tempfile
from pathlib import Path

from engine_traffic import MODEL, make_rounds


def main() -> None:
    """Serve each round of requests three times."""
    import sglang

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(MODEL))
        engine = sglang.Engine(
            model_path=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            # Without further libraries.
            attention_backend="triton",
            sampling_backend="pytorch",
            grammar_backend="none",
            cuda_graph_max_bs=32,
            max_running_requests=48,
            piecewise_cuda_graph_max_tokens=256,
            chunked_prefill_size=1024,
            context_length=2048,
            random_seed=0,
        )
    draw = random.Random(0)
    for requests in 3 * make_rounds():
        engine.generate(
            input_ids=[
                [draw.randrange(1000, 30000) for _ in range(length)] for length, _ in requests
            ],
            sampling_params=[
                {"temperature": 0.0, "max_new_tokens": count, "ignore_eos": True}
                for _, count in requests
            ],
        )
    engine.shutdown()


if __name__ == "__main__":
    main()
