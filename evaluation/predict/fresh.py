"""Steps of further kinds, written after all that is recorded had been looked at: for a recording by
which predictions and the width of their intervals are judged once, and nothing is chosen.

A suite like :mod:`evaluation.predict.unseen` that needs nothing but torch. Recorded, on a GPU,
with::

    graphviz-dash bench predict --suite evaluation.predict.fresh -o runs/predict-fresh
    python -m evaluation.predict.trim_data runs/predict-fresh evaluation/data/predict/fresh
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from evaluation.predict.library_models import HALF, Step, images, training


def long_convolutions_infer() -> Step:
    """Four gated convolutions as long as their input, by Fourier transforms, over 2,048 places."""
    width, length = 256, 2_048
    mixers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(4)).cuda()
    filters = [torch.randn(width, length, device="cuda") / 40 for _ in mixers]
    places = torch.randn(4, length, width, device="cuda")

    @torch.no_grad()
    def step() -> object:
        out = places
        for mixer, taps in zip(mixers, filters, strict=True):
            value, gate, key = mixer(out).transpose(1, 2).chunk(3, 1)
            waves = torch.fft.rfft(value * key, 2 * length) * torch.fft.rfft(taps, 2 * length)
            out = out + (gate * torch.fft.irfft(waves, 2 * length)[..., :length]).transpose(1, 2)
        return out

    return step


def beam_search_infer() -> Step:
    """Twelve rounds of a search with 8 beams of 4 sentences over 32,000 words, bf16."""
    embed = torch.randn(32_000, 256, device="cuda", dtype=HALF) / 16
    cell = nn.GRUCell(256, 256).to("cuda", HALF)

    @torch.no_grad()
    def step() -> object:
        state = torch.zeros(32, 256, device="cuda", dtype=HALF)
        score = torch.zeros(4, 8, device="cuda")
        words = torch.zeros(32, dtype=torch.long, device="cuda")
        rows = 8 * torch.arange(4, device="cuda")[:, None]
        for _ in range(12):
            state = cell(embed[words], state)
            odds = functional.log_softmax((state @ embed.T).float(), -1).view(4, 8, -1)
            score, best = (score[..., None] + odds).flatten(1).topk(8)
            parent = (rows + best // 32_000).flatten()
            state, words = state[parent], (best % 32_000).flatten()
        return score

    return step


def momentum_contrast_train() -> Step:
    """Two encoders of pictures, the second a moving average of the first, fp32, SGD foreach."""

    def encoder() -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 128),
        ).cuda()  # fmt: skip

    query, key = encoder(), encoder()
    first, second = images(64, 64), images(64, 64)
    bank = functional.normalize(torch.randn(4_096, 128, device="cuda"))
    mine = torch.zeros(64, dtype=torch.long, device="cuda")

    def loss_of() -> torch.Tensor:
        with torch.no_grad():
            torch._foreach_lerp_(list(key.parameters()), list(query.parameters()), 0.01)
            wanted = functional.normalize(key(second))
        seen = functional.normalize(query(first))
        odds = torch.cat([(seen * wanted).sum(1, keepdim=True), seen @ bank.T], 1) / 0.2
        return functional.cross_entropy(odds, mine)

    optimizer = torch.optim.SGD(query.parameters(), lr=1e-3, momentum=0.9, foreach=True)
    return training(query, loss_of, optimizer)


def dilated_sound_infer() -> Step:
    """Two stacks of ten dilated, gated convolutions over a second of sound, fp16."""
    layers = nn.ModuleList(
        nn.Conv1d(64, 128, 2, dilation=2 ** (at % 10), padding=2 ** (at % 10)) for at in range(20)
    ).to("cuda", torch.float16)
    ways = nn.ModuleList(nn.Conv1d(64, 64, 1) for _ in layers).to("cuda", torch.float16)
    sound = torch.randn(1, 64, 16_000, device="cuda", dtype=torch.float16)

    @torch.no_grad()
    def step() -> object:
        out, total = sound, torch.zeros_like(sound)
        for layer, way in zip(layers, ways, strict=True):
            value, gate = layer(out)[..., :16_000].chunk(2, 1)
            part = way(torch.tanh(value) * torch.sigmoid(gate))
            out, total = out + part, total + part
        return total

    return step


def point_cloud_train() -> Step:
    """A PointNet over 16 clouds of 1,024 points, fp32, Adam fused."""
    model = nn.Sequential(
        nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Conv1d(64, 128, 1), nn.BatchNorm1d(128), nn.ReLU(),
        nn.Conv1d(128, 1_024, 1), nn.AdaptiveMaxPool1d(1), nn.Flatten(),
        nn.Linear(1_024, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 40),
    ).cuda()  # fmt: skip
    points = torch.randn(16, 3, 1_024, device="cuda")
    labels = torch.randint(40, (16,), device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=True)
    return training(model, lambda: functional.cross_entropy(model(points), labels), optimizer)


def optical_flow_infer() -> Step:
    """Eight refinements of a flow field: pictures warped by it, compared, and a small network."""
    net = nn.Sequential(
        nn.Conv2d(66, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(),
        nn.Conv2d(64, 2, 3, 1, 1),
    ).cuda()  # fmt: skip
    left, right = (torch.randn(1, 32, 96, 128, device="cuda") for _ in range(2))
    line = [torch.linspace(-1, 1, size, device="cuda") for size in (96, 128)]
    rows, columns = torch.meshgrid(*line, indexing="ij")
    grid = torch.stack([columns, rows], -1)[None]

    @torch.no_grad()
    def step() -> object:
        flow = torch.zeros(1, 2, 96, 128, device="cuda")
        for _ in range(8):
            warped = functional.grid_sample(
                right, grid + flow.permute(0, 2, 3, 1), align_corners=True
            )
            flow = flow + 0.01 * net(torch.cat([left, warped, flow], 1))
        return flow

    return step


def bodies() -> Step:
    """Ten leapfrog steps of 1,024 bodies that attract each other, fp32."""
    begin = torch.randn(1_024, 3, device="cuda")
    mass = torch.rand(1_024, device="cuda")

    def pull(place: torch.Tensor) -> torch.Tensor:
        apart = place[None] - place[:, None]
        cubed = (apart.square().sum(-1) + 1e-2).rsqrt().pow(3)
        return (apart * (mass * cubed)[..., None]).sum(1)

    @torch.no_grad()
    def step() -> object:
        place, speed = begin, torch.zeros_like(begin)
        for _ in range(10):
            speed = speed + 5e-4 * pull(place)
            place = place + 1e-3 * speed
            speed = speed + 5e-4 * pull(place)
        return place

    return step


def orthogonal_updates_train() -> Step:
    """A network of six layers whose momenta are made orthogonal by Newton and Schulz, bf16."""
    model = nn.Sequential(
        *(part for _ in range(6) for part in (nn.Linear(512, 512, bias=False), nn.GELU()))
    ).to("cuda", HALF)
    rows = torch.randn(128, 512, device="cuda", dtype=HALF)
    momenta = [torch.zeros_like(weight) for weight in model.parameters()]

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(rows).square().mean().backward()
        with torch.no_grad():
            for weight, momentum in zip(model.parameters(), momenta, strict=True):
                assert weight.grad is not None
                momentum.mul_(0.95).add_(weight.grad)
                turn = momentum / (momentum.norm() + 1e-7)
                for _ in range(5):
                    inner = turn @ turn.T
                    turn = 3.4445 * turn + (-4.775 * inner + 2.0315 * inner @ inner) @ turn
                weight.sub_(turn, alpha=1e-3)

    return step


def linear_attention_decode() -> Step:
    """One word for 32 sentences through 8 layers with a state in place of a cache, bf16."""
    width, heads = 512, 8
    ins = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(8)).to("cuda", HALF)
    outs = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(8)).to("cuda", HALF)
    states = [torch.zeros(32, heads, 64, 64, device="cuda") for _ in range(8)]
    word = torch.randn(32, width, device="cuda", dtype=HALF)

    @torch.no_grad()
    def step() -> object:
        x = word
        for into, out, state in zip(ins, outs, states, strict=True):
            query, key, value, gate = into(functional.rms_norm(x, (width,))).chunk(4, -1)
            query, key, value = (part.float().view(32, heads, 64) for part in (query, key, value))
            state.mul_(0.97).add_(key[..., None] * value[..., None, :])
            read = (query[..., None, :] @ state).flatten(1).to(HALF)
            x = x + out(read * functional.silu(gate))
        return x

    return step


def autoencoder_train() -> Step:
    """A variational autoencoder of 64 x 64 pictures, which draws its codes, fp32, Adam."""
    down = nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 256, 128),
    ).cuda()  # fmt: skip
    up = nn.Sequential(
        nn.Linear(64, 64 * 256), nn.Unflatten(1, (64, 16, 16)), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1),
    ).cuda()  # fmt: skip
    model = nn.ModuleList([down, up])
    pictures = images(32, 64)

    def loss_of() -> torch.Tensor:
        mean, spread = down(pictures).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        apart = 0.5 * (mean.square() + spread.exp() - 1 - spread).mean()
        return functional.mse_loss(up(code), pictures) + apart

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    return training(model, loss_of, optimizer)


def cellular_automaton_train() -> Step:
    """Sixteen rounds of a learned automaton on 32 fields of 40 x 40, and back through all."""
    see = nn.Conv2d(16, 48, 3, 1, 1, groups=16, bias=False).cuda()
    think = nn.Sequential(nn.Conv2d(48, 64, 1), nn.ReLU(), nn.Conv2d(64, 16, 1)).cuda()
    model = nn.ModuleList([see, think])
    seeds = torch.rand(32, 16, 40, 40, device="cuda")

    def loss_of() -> torch.Tensor:
        field = seeds
        for _ in range(16):
            alive = functional.max_pool2d(field[:, 3:4], 3, 1, 1) > 0.1
            field = (field + 0.1 * think(see(field))) * alive
        return field[:, :4].square().mean()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    return training(model, loss_of, optimizer)


def sequences_of_items_train() -> Step:
    """A transformer that recommends: 64 histories of 50 items of 20,000, with dropout, fp32."""
    items = nn.Embedding(20_000, 64).cuda()
    layer = nn.TransformerEncoderLayer(64, 2, 128, 0.2, batch_first=True)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
    model = nn.ModuleList([items, body])
    seen, wanted, other = (torch.randint(20_000, (64, 50), device="cuda") for _ in range(3))
    mask = nn.Transformer.generate_square_subsequent_mask(50, device="cuda")

    def loss_of() -> torch.Tensor:
        out = body(items(seen), mask=mask, is_causal=True)
        right, wrong = ((out * items(part)).sum(-1) for part in (wanted, other))
        return functional.softplus(wrong - right).mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    return training(model, loss_of, optimizer)


def adapters_train() -> Step:
    """Eight frozen layers of 2,048 with adapters of rank 16 beside each, bf16, AdamW fused."""
    frozen = [torch.randn(2_048, 2_048, device="cuda", dtype=HALF) / 45 for _ in range(8)]
    down = nn.ParameterList(torch.randn(2_048, 16, device="cuda", dtype=HALF) for _ in frozen)
    up = nn.ParameterList(torch.zeros(16, 2_048, device="cuda", dtype=HALF) for _ in frozen)
    model = nn.ModuleList([down, up])
    rows = torch.randn(256, 2_048, device="cuda", dtype=HALF)

    def loss_of() -> torch.Tensor:
        x = rows
        for weight, low, high in zip(frozen, down, up, strict=True):
            x = functional.gelu(x @ weight + x @ low @ high)
        return x.square().mean()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    return training(model, loss_of, optimizer)


def quantised_decode() -> Step:
    """One word through 12 pairs of matrices kept in 8 bits, which are widened when used, bf16."""
    pairs = [
        [torch.randint(-127, 127, size, dtype=torch.int8, device="cuda") for size in sizes]
        for sizes in [((1_024, 4_096), (4_096, 1_024))] * 12
    ]
    word = torch.randn(1, 1_024, device="cuda", dtype=HALF)

    @torch.no_grad()
    def step() -> object:
        x = word
        for wide, narrow in pairs:
            y = functional.silu(functional.rms_norm(x, (1_024,)) @ (wide.to(HALF) / 2_048))
            x = x + y @ (narrow.to(HALF) / 2_048)
        return x

    return step


def pyramid_infer() -> Step:
    """One network on pictures of three sizes, each on a stream of its own, then joined, fp32."""
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(8),
    ).cuda()  # fmt: skip
    pictures = [images(4, size) for size in (256, 128, 64)]
    beside = [torch.cuda.Stream() for _ in pictures[1:]]

    @torch.no_grad()
    def step() -> object:
        here = torch.cuda.current_stream()
        out = []
        for stream, picture in zip(beside, pictures[1:], strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                out.append(net(picture))
        out.append(net(pictures[0]))
        for stream in beside:
            here.wait_stream(stream)
        return torch.cat(out, 1)

    return step


def offloaded_infer() -> Step:
    """Six layers of 2,048 whose weights come from pinned memory while the one before runs, fp16."""
    kind = torch.float16
    kept = [torch.randn(2_048, 2_048, dtype=kind).div_(45).pin_memory() for _ in range(6)]
    room = [torch.empty(2_048, 2_048, dtype=kind, device="cuda") for _ in range(2)]
    rows = torch.randn(512, 2_048, dtype=kind, device="cuda")
    beside = torch.cuda.Stream()

    @torch.no_grad()
    def step() -> object:
        here = torch.cuda.current_stream()
        beside.wait_stream(here)
        x = rows
        for at, weight in enumerate(kept):
            with torch.cuda.stream(beside):
                room[at % 2].copy_(weight, non_blocking=True)
            here.wait_stream(beside)
            x = functional.relu(x @ room[at % 2])
            beside.wait_stream(here)
        here.wait_stream(beside)
        return x

    return step


def rollouts() -> Step:
    """Twenty moves of 2,048 carts with poles by a policy that draws its actions, fp32."""
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
    begin = 0.1 * torch.randn(2_048, 4, device="cuda")

    @torch.no_grad()
    def step() -> object:
        state, alive = begin, torch.ones(2_048, device="cuda")
        for _ in range(20):
            push = torch.where(torch.rand_like(alive) < policy(state)[:, 0].sigmoid(), 10.0, -10.0)
            x, speed, angle, turn = state.unbind(1)
            sine, cosine = angle.sin(), angle.cos()
            force = (push + 0.05 * turn.square() * sine) / 1.1
            spin = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine.square() / 1.1))
            slide = force - 0.05 * spin * cosine / 1.1
            state = torch.stack(
                [x + 0.02 * speed, speed + 0.02 * slide, angle + 0.02 * turn, turn + 0.02 * spin], 1
            )
            alive = alive * (state[:, 2].abs() < 0.2)
        return alive.sum()

    return step


def histograms() -> Step:
    """Sixteen features of a million rows put into 256 bins, counted, summed and scanned, fp32."""
    rows = torch.randn(16, 1 << 20, device="cuda")
    slopes = torch.randn(1 << 20, device="cuda")
    edges = torch.linspace(-3, 3, 255, device="cuda")

    @torch.no_grad()
    def step() -> object:
        gains = []
        for feature in rows:
            bins = torch.bucketize(feature, edges)
            sums = torch.zeros(256, device="cuda").index_add_(0, bins, slopes).cumsum(0)
            gains.append((sums.square() + (sums[-1] - sums).square()).max())
        return torch.stack(gains).argmax()

    return step


SUITE: Final[dict[str, Callable[[], Step]]] = {
    "long-convolutions-infer": long_convolutions_infer,
    "beam-search-infer": beam_search_infer,
    "momentum-contrast-train": momentum_contrast_train,
    "dilated-sound-infer": dilated_sound_infer,
    "point-cloud-train": point_cloud_train,
    "optical-flow-infer": optical_flow_infer,
    "bodies": bodies,
    "orthogonal-updates-train": orthogonal_updates_train,
    "linear-attention-decode": linear_attention_decode,
    "autoencoder-train": autoencoder_train,
    "cellular-automaton-train": cellular_automaton_train,
    "sequences-of-items-train": sequences_of_items_train,
    "adapters-train": adapters_train,
    "quantised-decode": quantised_decode,
    "pyramid-infer": pyramid_infer,
    "offloaded-infer": offloaded_infer,
    "rollouts": rollouts,
    "histograms": histograms,
}
