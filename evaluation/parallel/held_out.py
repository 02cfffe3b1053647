"""Steps of other kinds, that nobody had looked at when the planner of mode ``parallel`` and its
model were last changed.

On a GPU, with torchvision::

    python -m evaluation.parallel.held_out OUT [NAME ...]

records them as :mod:`evaluation.parallel.unseen` does its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Final

import torch
from torch import nn
from torch.nn import functional

from evaluation.parallel.fresh import perceptron
from evaluation.parallel.unseen import HALF, Step, inferred, record


def trained(networks: Iterable[nn.Module], loss: Callable[[], torch.Tensor]) -> Step:
    """The step that computes a loss and the gradients of the networks' weights."""
    weights = [weight for network in networks for weight in network.parameters()]

    def step() -> object:
        for weight in weights:
            weight.grad = None
        value = loss()
        value.backward()
        return value.detach(), [weight.grad for weight in weights]

    return step


def detection_queries() -> Step:
    """A DETR decoder of three layers over 100 queries, with classes and boxes of each; fp16."""
    layers = nn.ModuleList(
        nn.TransformerDecoderLayer(256, 8, 1024, 0.0, batch_first=True) for _ in range(3)
    )
    layers = layers.to("cuda", HALF).eval()
    classes = nn.Linear(256, 92).to("cuda", HALF)
    boxes = perceptron(256, 256, 256, 4).to(HALF)
    queries = torch.randn(1, 100, 256, device="cuda", dtype=HALF)
    memory = torch.randn(1, 280, 256, device="cuda", dtype=HALF)

    def run(x: torch.Tensor, memory: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for layer in layers:
            x = layer(x, memory)
            results += [classes(x), boxes(x).sigmoid()]
        return results

    return inferred(run, queries, memory)


def pyramid_heads() -> Step:
    """Heads of RetinaNet for classes and boxes on maps of four sizes; fp16."""

    def head(outputs: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for _ in range(2):
            layers += [nn.Conv2d(128, 128, 3, padding=1), nn.GroupNorm(16, 128), nn.ReLU()]
        layers.append(nn.Conv2d(128, outputs, 3, padding=1))
        return nn.Sequential(*layers).to("cuda", HALF).eval()

    heads = [head(9 * 20), head(9 * 4)]
    maps = [torch.randn(1, 128, 40 >> k, 40 >> k, device="cuda", dtype=HALF) for k in range(4)]
    return inferred(lambda: [head(x) for x in maps for head in heads])


def multi_gate_experts() -> Step:
    """Six experts mixed by a gate for each of three tasks, forward and backward."""
    experts = [perceptron(128, 256, 128) for _ in range(6)]
    gates = [perceptron(128, 6) for _ in range(3)]
    towers = [perceptron(128, 64, 1) for _ in range(3)]
    x = torch.randn(512, 128, device="cuda")
    wanted = torch.rand(3, 512, 1, device="cuda")

    def loss() -> torch.Tensor:
        mixed = torch.stack([expert(x) for expert in experts], 1)
        results = [
            tower((gate(x).softmax(-1).unsqueeze(-1) * mixed).sum(1))
            for gate, tower in zip(gates, towers, strict=True)
        ]
        return functional.mse_loss(torch.stack(results).sigmoid(), wanted)

    return trained([*experts, *gates, *towers], loss)


def graph_attention() -> Step:
    """Two layers of attention over a graph of 400 nodes, four heads one after another."""
    widths = (64, 128)
    weights = [[torch.randn(w, 32, device="cuda") / w**0.5 for _ in range(4)] for w in widths]
    scores = [[torch.randn(2, 32, 1, device="cuda") for _ in range(4)] for _ in widths]
    absent = torch.rand(400, 400, device="cuda") > 0.03
    absent.fill_diagonal_(False)

    def run(x: torch.Tensor) -> torch.Tensor:
        for weight, score in zip(weights, scores, strict=True):
            heads = []
            for w, (source, target) in zip(weight, score, strict=True):
                y = x @ w
                edges = functional.leaky_relu(y @ source + (y @ target).t(), 0.2)
                heads.append(edges.masked_fill(absent, -1e4).softmax(-1) @ y)
            x = functional.elu(torch.cat(heads, -1))
        return x

    return inferred(run, torch.randn(400, 64, device="cuda"))


def scales_of_sound() -> Step:
    """Discriminators of a signal at three rates, as in MelGAN; fp16."""

    def discriminator() -> nn.Sequential:
        layers: list[nn.Module] = [nn.Conv1d(1, 32, 15, padding=7), nn.LeakyReLU(0.2)]
        for a, b in ((32, 64), (64, 128), (128, 256)):
            layers += [nn.Conv1d(a, b, 21, stride=4, padding=10, groups=4), nn.LeakyReLU(0.2)]
        return nn.Sequential(*layers, nn.Conv1d(256, 1, 3, padding=1)).to("cuda", HALF).eval()

    networks = [discriminator() for _ in range(3)]

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for network in networks:
            results.append(network(x))
            x = functional.avg_pool1d(x, 4, 2, padding=1)
        return results

    return inferred(run, torch.randn(2, 1, 4096, device="cuda", dtype=HALF))


def grouped_points() -> Step:
    """Groups of points at three scales through perceptrons of their own, as in PointNet++."""
    networks = [perceptron(6, 32, 64), perceptron(6, 64, 96), perceptron(6, 64, 128)]
    head = perceptron(64 + 96 + 128, 128, 40)
    points = torch.randn(2048, 6, device="cuda")
    groups = [torch.randint(0, 2048, (256, size), device="cuda") for size in (8, 16, 32)]

    def run(points: torch.Tensor) -> torch.Tensor:
        parts = [net(points[group]).amax(1) for net, group in zip(networks, groups, strict=True)]
        return head(torch.cat(parts, -1))

    return inferred(run, points)


def transducer_joint() -> Step:
    """A transducer: LSTM cells over 12 labels beside an encoder of 60 frames, and their joint."""
    cells = [nn.LSTMCell(128, 128).cuda() for _ in range(2)]
    layer = nn.TransformerEncoderLayer(256, 4, 512, 0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).cuda().eval()
    joins = [perceptron(128, 160), perceptron(256, 160)]
    vocabulary = perceptron(160, 128)
    labels = torch.randn(12, 1, 128, device="cuda")
    frames = torch.randn(1, 60, 256, device="cuda")

    def run() -> torch.Tensor:
        zero = torch.zeros(1, 128, device="cuda")
        states = [(zero, zero) for _ in cells]
        said = []
        for x in labels:
            below = x
            for at, cell in enumerate(cells):
                states[at] = cell(below, states[at])
                below = states[at][0]
            said.append(below)
        heard = joins[1](encoder(frames))
        return vocabulary((heard.unsqueeze(2) + joins[0](torch.stack(said, 1)).unsqueeze(1)).tanh())

    return inferred(run)


def histories() -> Step:
    """A user's three histories, each attended by the candidate items, beside their own tower."""
    items = nn.Embedding(8000, 64).cuda()
    scores = [perceptron(4 * 64, 64, 1) for _ in range(3)]
    user, item = perceptron(3 * 64, 128, 64), perceptron(64, 128, 64)
    rows = [torch.randint(0, 8000, (32, 40), device="cuda") for _ in scores]
    candidates = torch.randint(0, 8000, (32,), device="cuda")

    def run() -> torch.Tensor:
        wanted = items(candidates)
        parts = []
        for score, own in zip(scores, rows, strict=True):
            past = items(own)
            beside = wanted.unsqueeze(1).expand_as(past)
            joined = torch.cat([past, beside, past - beside, past * beside], -1)
            parts.append((score(joined).softmax(1) * past).sum(1))
        return (user(torch.cat(parts, -1)) * item(wanted)).sum(-1)

    return inferred(run)


def actor_and_critic() -> Step:
    """An update of an actor and a critic with convolutions of their own, forward and backward."""

    def network(outputs: int) -> nn.Sequential:
        return nn.Sequential(
            *(nn.Conv2d(4, 16, 8, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 4, stride=2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(32 * 81, 256), nn.ReLU(), nn.Linear(256, outputs)),
        ).cuda()

    actor, critic = network(6), network(1)
    frames = torch.randn(32, 4, 84, 84, device="cuda")
    actions = torch.randint(0, 6, (32, 1), device="cuda")
    before, returns = torch.randn(32, 1, device="cuda"), torch.randn(32, 1, device="cuda")

    def loss() -> torch.Tensor:
        logs, values = actor(frames).log_softmax(-1), critic(frames)
        gain = (returns - values).detach()
        ratio = (logs.gather(1, actions) - before.clamp(max=0)).exp().clamp(max=10)
        clipped = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        entropy = -(logs.exp() * logs).sum(-1).mean()
        return functional.mse_loss(values, returns) - clipped - 0.01 * entropy

    return trained([actor, critic], loss)


def coupled_fields() -> Step:
    """A Runge-Kutta step of four coupled fields, each a network of its own."""
    fields = [perceptron(64, 128, 128, 16) for _ in range(4)]

    def slope(state: torch.Tensor) -> torch.Tensor:
        return torch.cat([field(state).tanh() for field in fields], -1)

    def run(state: torch.Tensor) -> torch.Tensor:
        first = slope(state)
        second = slope(state + 0.05 * first)
        third = slope(state + 0.05 * second)
        last = slope(state + 0.1 * third)
        return state + 0.1 / 6 * (first + 2 * second + 2 * third + last)

    return inferred(run, torch.randn(128, 64, device="cuda"))


def several_adapters() -> Step:
    """Requests of four tenants through shared layers, each with an adapter of low rank; fp16."""
    width, rank = 1024, 16
    weights = [torch.randn(width, width, device="cuda", dtype=HALF) / 32 for _ in range(3)]
    adapters = [
        [
            (
                torch.randn(width, rank, device="cuda", dtype=HALF) / 32,
                torch.randn(rank, width, device="cuda", dtype=HALF) / 4,
            )
            for _ in range(4)
        ]
        for _ in weights
    ]

    def run(x: torch.Tensor) -> torch.Tensor:
        for weight, own in zip(weights, adapters, strict=True):
            added = [
                part @ down @ up for part, (down, up) in zip(x.chunk(len(own)), own, strict=True)
            ]
            x = functional.silu(x @ weight + torch.cat(added))
        return x

    return inferred(run, torch.randn(32, width, device="cuda", dtype=HALF))


class Block(nn.Module):
    """A layer of a decoder with a mask, whose queries, keys and values are products apart."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """One sequence of tokens by width, and what is added to scores."""
        y = self.norms[0](x)
        q, k, v = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(0, 1)
            for part in (self.query, self.key, self.value)
        )
        scores = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + mask).softmax(-1)
        x = x + self.out((scores @ v).transpose(0, 1).flatten(1))
        result: torch.Tensor = x + self.down(functional.gelu(self.up(self.norms[1](x))))
        return result


def verified_drafts() -> Step:
    """A tree of 16 drafted tokens verified by two layers with five heads, as in Medusa; fp16."""
    blocks = [Block(512, 8).to("cuda", HALF).eval() for _ in range(2)]
    heads = [
        nn.Sequential(nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 4096)).to("cuda", HALF)
        for _ in range(5)
    ]
    hidden = torch.rand(16, 16, device="cuda").tril() <= 0
    mask = torch.zeros(16, 16, device="cuda", dtype=HALF).masked_fill(hidden, -1e4)

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        for block in blocks:
            x = block(x, mask)
        return [head(x).argmax(-1) for head in heads]

    return inferred(run, torch.randn(16, 512, device="cuda", dtype=HALF))


def encoder_and_decoder() -> Step:
    """An encoder of 40 frames beside the first layers of a decoder that then reads it; fp16."""
    encoder = [Block(256, 4).to("cuda", HALF).eval() for _ in range(3)]
    own = [Block(256, 4).to("cuda", HALF).eval() for _ in range(2)]
    cross = nn.MultiheadAttention(256, 4, batch_first=True).to("cuda", HALF).eval()
    vocabulary = nn.Linear(256, 2048).to("cuda", HALF)
    masks = [torch.randn(n, n, device="cuda", dtype=HALF) for n in (40, 12)]

    def run(frames: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        for block in encoder:
            frames = block(frames, masks[0])
        for block in own:
            tokens = block(tokens, masks[1])
        memory = frames.unsqueeze(0)
        read = cross(tokens.unsqueeze(0), memory, memory, need_weights=False)[0]
        return vocabulary(tokens + read.squeeze(0))

    frames, tokens = (torch.randn(n, 256, device="cuda", dtype=HALF) for n in (40, 12))
    return inferred(run, frames, tokens)


def means_and_variances() -> Step:
    """A variational autoencoder of small pictures with two decoders, forward and backward."""
    encoder = nn.Sequential(
        *(nn.Conv2d(1, 32, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()),
    ).cuda()
    mean, spread = (nn.Linear(64 * 49, 32).cuda() for _ in range(2))
    decoders = [perceptron(32, 256, 784) for _ in range(2)]
    pictures = torch.rand(64, 1, 28, 28, device="cuda")

    def loss() -> torch.Tensor:
        code = encoder(pictures)
        mu, log = mean(code), spread(code).tanh()
        drawn = mu + (log / 2).exp() * torch.randn_like(mu)
        scale = decoders[1](drawn).sigmoid() + 0.5
        fit = ((decoders[0](drawn) - pictures.flatten(1)) / scale).square().mean()
        return fit + scale.log().mean() + 0.01 * (mu.square() + log.exp() - log).mean()

    return trained([encoder, mean, spread, *decoders], loss)


def coupling_layers() -> Step:
    """Six affine couplings with networks for scale and shift, forward and backward."""
    pairs = [(perceptron(32, 128, 32), perceptron(32, 128, 32)) for _ in range(6)]
    x = torch.randn(256, 64, device="cuda")

    def loss() -> torch.Tensor:
        left, right = x.chunk(2, -1)
        total = torch.zeros((), device="cuda")
        for scales, shifts in pairs:
            scale = scales(left).tanh()
            left, right = right * scale.exp() + shifts(left), left
            total = total + scale.mean()
        return (left.square() + right.square()).mean() - total

    return trained([network for pair in pairs for network in pair], loss)


def quantised_speech() -> Step:
    """Frames of speech to two codebooks beside a context network, as in wav2vec 2.0; fp16."""
    front = nn.Sequential(
        *(nn.Conv1d(1, 128, 10, stride=5), nn.GELU(), nn.Conv1d(128, 128, 3, stride=2), nn.GELU()),
        *(nn.Conv1d(128, 256, 3, stride=2), nn.GELU(), nn.Conv1d(256, 256, 3, stride=2)),
    )
    front = front.to("cuda", HALF).eval()
    context = [Block(256, 4).to("cuda", HALF).eval() for _ in range(2)]
    books = [torch.randn(320, 128, device="cuda", dtype=HALF) for _ in range(2)]
    choices = [nn.Linear(256, 320).to("cuda", HALF) for _ in books]
    mask = torch.zeros(1, 1, device="cuda", dtype=HALF)

    def run(sound: torch.Tensor) -> torch.Tensor:
        frames = front(sound).squeeze(0).t().contiguous()
        x = frames
        for block in context:
            x = block(x, mask)
        codes = [
            choice(frames).softmax(-1) @ book for choice, book in zip(choices, books, strict=True)
        ]
        return functional.cosine_similarity(x, torch.cat(codes, -1), dim=-1)

    return inferred(run, torch.randn(1, 1, 4000, device="cuda", dtype=HALF))


def stereo_windows() -> Step:
    """Two pictures through windows of attention (Swin), and how they match; fp16."""
    from torchvision.models.swin_transformer import SwinTransformer

    sizes = {"patch_size": [4, 4], "embed_dim": 48, "depths": [2, 2], "num_heads": [2, 4]}
    features = SwinTransformer(**sizes, window_size=[7, 7]).features.to("cuda", HALF).eval()
    left, right = (torch.randn(1, 3, 112, 112, device="cuda", dtype=HALF) for _ in range(2))

    def run(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        a, b = features(left), features(right)
        return torch.stack([(a * b.roll(shift, 2)).mean(-1) for shift in range(4)])

    return inferred(run, left, right)


def taught_student() -> Step:
    """A student's forward and backward beside the forward of its ConvNeXt teacher."""
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    settings = [CNBlockConfig(64, 128, 2), CNBlockConfig(128, None, 2)]
    teacher = ConvNeXt(settings, num_classes=100).cuda().eval()
    student = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, stride=4, padding=1), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 100)),
    ).cuda()
    pictures = torch.randn(8, 3, 96, 96, device="cuda")

    def loss() -> torch.Tensor:
        with torch.no_grad():
            taught = teacher(pictures).softmax(-1)
        return -(student(pictures).log_softmax(-1) * taught).sum(-1).mean()

    return trained([student], loss)


STEPS: Final[tuple[Callable[[], Step], ...]] = (
    multi_gate_experts,
    scales_of_sound,
    graph_attention,
    coupled_fields,
    several_adapters,
    pyramid_heads,
    histories,
    transducer_joint,
    actor_and_critic,
    verified_drafts,
    coupling_layers,
    grouped_points,
    encoder_and_decoder,
    means_and_variances,
    taught_student,
    quantised_speech,
    stereo_windows,
    detection_queries,
)


if __name__ == "__main__":
    record(STEPS, sys.argv[1:])
