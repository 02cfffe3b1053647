"""Trains a GPT of eight layers with megatron-core in one process: without graphs, with a forward
and a backward graph for each layer (``local``), or with one graph of the whole iteration.

With ``--deterministic`` and CUBLAS_WORKSPACE_CONFIG=:4096:8, runs of a kind print equal results.
"""

import argparse
import hashlib
import os

os.environ |= {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": os.environ.get("MASTER_PORT", "29511"),
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
}

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.full_cuda_graph import FullCudaGraphWrapper
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

MICROBATCHES = 2


def model_of(kind: str) -> torch.nn.Module:
    graphs = {} if kind == "none" else {"cuda_graph_impl": kind}
    if kind == "local":
        graphs["cuda_graph_modules"] = []
    config = TransformerConfig(
        num_layers=8,
        hidden_size=512,
        num_attention_heads=8,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        gradient_accumulation_fusion=False,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        **graphs,
    )
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(),
        vocab_size=4096,
        max_sequence_length=256,
        share_embeddings_and_output_weights=False,
    )
    parallel = DistributedDataParallelConfig(grad_reduce_in_fp32=True, overlap_grad_reduce=False)
    return DistributedDataParallel(config, parallel, model.cuda().bfloat16())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", choices=("none", "local", "full_iteration"), default="none")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--deterministic", action="store_true")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(asked.deterministic, warn_only=True)
    torch.cuda.set_device(0)
    if asked.graphs == "full_iteration":
        # A capture must not depend on the legacy stream, where a warm-up leaves gradients.
        torch.cuda.set_stream(torch.cuda.Stream())
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)
    model_parallel_cuda_manual_seed(1, use_cudagraphable_rng=True)
    model = model_of(asked.graphs)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, 4096, (2, 256), device="cuda")
    positions = torch.arange(256, device="cuda")[None].repeat(2, 1)
    mask = torch.triu(torch.ones(1, 1, 256, 256, device="cuda", dtype=torch.bool), 1)

    def forward(_data: object, part: torch.nn.Module) -> tuple[torch.Tensor, object]:
        output = part(tokens, positions, mask, labels=tokens)
        return output, lambda loss: (loss.float().mean(), {"loss": loss.float().mean().detach()})

    run = get_forward_backward_func()
    if asked.graphs == "full_iteration":
        run = FullCudaGraphWrapper(run, cuda_graph_warmup_steps=3)
    values = []
    for step in range(asked.steps):
        model.zero_grad_buffer()
        losses = run(
            forward_step_func=forward,
            data_iterator=iter([{"tokens": tokens}] * MICROBATCHES),
            model=[model],
            num_microbatches=MICROBATCHES,
            seq_length=256,
            micro_batch_size=2,
            forward_only=False,
        )
        for parameter in model.parameters():
            parameter.grad = parameter.main_grad.to(parameter.dtype)
        optimizer.step()
        for parameter in model.parameters():
            # A captured backward pass would add to this memory after it is freed. In ``local``, the
            # wrapper's hook would add it to main_grad on another stream, next to a replay.
            parameter.grad = None
        if step < 6 or step % 10 == 9:
            values.append(float(losses[0]["loss"]))
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().float().cpu().numpy().tobytes())
    print("LOSSES", *values)
    print("RESULT", asked.graphs, values[-1], digest.hexdigest()[:16])
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
