"""Steps whose kernels are compared with hardware counters. Each function builds a step."""

import torch
from torch import nn
from torch.nn import functional

D = "cuda"


class Attn(nn.Module):
    def __init__(self, w, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(w, 3 * w)
        self.o = nn.Linear(w, w)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        return self.o(
            functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(b, t, w)
        )


class Block(nn.Module):
    def __init__(self, w, h):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.a = Attn(w, h)
        self.m = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w))

    def forward(self, x):
        x = x + self.a(self.n1(x))
        return x + self.m(self.n2(x))


class GPT(nn.Module):
    def __init__(self, w=1024, h=16, layers=2, vocab=16000, t=512):
        super().__init__()
        self.e = nn.Embedding(vocab, w)
        self.p = nn.Parameter(torch.zeros(t, w))
        self.b = nn.ModuleList(Block(w, h) for _ in range(layers))
        self.n = nn.LayerNorm(w)
        self.head = nn.Linear(w, vocab, bias=False)

    def forward(self, x):
        y = self.e(x) + self.p
        for b in self.b:
            y = b(y)
        return self.head(self.n(y))


def build_gpt_train(dtype=torch.bfloat16, batch=8):
    """A training step of two transformer layers in bfloat16."""
    m = GPT().to(D, dtype)
    x = torch.randint(0, 16000, (batch, 512), device=D)
    y = torch.randint(0, 16000, (batch, 512), device=D)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True, capturable=True)

    def step():
        o.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(m(x).view(-1, 16000), y.view(-1))
        loss.backward()
        o.step()
        return loss

    return step


class RMS(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = nn.Parameter(torch.ones(w))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.w


class LlamaBlock(nn.Module):
    def __init__(self, w, h, kv, ctx, b):
        super().__init__()
        self.h, self.kv, self.d = h, kv, w // h
        self.n1, self.n2 = RMS(w), RMS(w)
        self.q, self.k, self.v = (nn.Linear(w, n * self.d, bias=False) for n in (h, kv, kv))
        self.o = nn.Linear(w, w, bias=False)
        self.g, self.u, self.dn = (
            nn.Linear(w, 3 * w, bias=False),
            nn.Linear(w, 3 * w, bias=False),
            nn.Linear(3 * w, w, bias=False),
        )
        self.register_buffer("ck", torch.zeros(b, kv, ctx, self.d))
        self.register_buffer("cv", torch.zeros(b, kv, ctx, self.d))

    def rotate(self, x, c, s):
        a, b = x.chunk(2, -1)
        return x * c + torch.cat((-b, a), -1) * s

    def forward(self, x, pos, c, s, mask):
        b = x.shape[0]
        y = self.n1(x)
        q = self.rotate(self.q(y).view(b, 1, self.h, self.d).transpose(1, 2), c, s)
        k = self.rotate(self.k(y).view(b, 1, self.kv, self.d).transpose(1, 2), c, s)
        v = self.v(y).view(b, 1, self.kv, self.d).transpose(1, 2)
        self.ck.index_copy_(2, pos, k)
        self.cv.index_copy_(2, pos, v)
        r = self.h // self.kv
        a = functional.scaled_dot_product_attention(
            q, self.ck.repeat_interleave(r, 1), self.cv.repeat_interleave(r, 1), attn_mask=mask
        )
        x = x + self.o(a.transpose(1, 2).reshape(b, 1, -1))
        y = self.n2(x)
        return x + self.dn(functional.silu(self.g(y)) * self.u(y))


def build_llama_decode(b=8, w=2048, layers=2, ctx=1024):
    """One token of two Llama layers in bfloat16."""
    bl = nn.ModuleList(LlamaBlock(w, 16, 4, ctx, b) for _ in range(layers)).to(D, torch.bfloat16)
    e = nn.Embedding(32000, w).to(D, torch.bfloat16)
    n = RMS(w).to(D, torch.bfloat16)
    head = nn.Linear(w, 32000, bias=False).to(D, torch.bfloat16)
    tok = torch.zeros(b, 1, dtype=torch.long, device=D)
    pos = torch.full((1,), 700, device=D)
    cs = torch.randn(ctx, w // 16, device=D, dtype=torch.bfloat16)
    ar = torch.arange(ctx, device=D)

    @torch.no_grad()
    def step():
        x = e(tok)
        c = cs[pos]
        s = cs[pos]
        mask = (ar <= pos)[None, None, None, :].expand(b, 1, 1, ctx)
        for layer in bl:
            x = layer(x, pos, c, s, mask)
        return head(n(x)).argmax(-1)

    return step


class Bottle(nn.Module):
    def __init__(self, i, m, s=1):
        super().__init__()
        o = 4 * m
        self.c1, self.b1 = nn.Conv2d(i, m, 1, bias=False), nn.BatchNorm2d(m)
        self.c2, self.b2 = nn.Conv2d(m, m, 3, s, 1, bias=False), nn.BatchNorm2d(m)
        self.c3, self.b3 = nn.Conv2d(m, o, 1, bias=False), nn.BatchNorm2d(o)
        self.d = (
            nn.Sequential(nn.Conv2d(i, o, 1, s, bias=False), nn.BatchNorm2d(o))
            if i != o or s > 1
            else nn.Identity()
        )

    def forward(self, x):
        y = functional.relu(self.b1(self.c1(x)))
        y = functional.relu(self.b2(self.c2(y)))
        return functional.relu(self.b3(self.c3(y)) + self.d(x))


def build_resnet_train(dtype=torch.float32, cl=False, batch=32):
    """A training step of a small ResNet in float32."""
    m = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Bottle(64, 64),
        Bottle(256, 128, 2),
        Bottle(512, 256, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(1024, 1000),
    ).to(D)
    x = torch.randn(batch, 3, 224, 224, device=D)
    y = torch.randint(0, 1000, (batch,), device=D)
    if cl:
        m, x = m.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    o = torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9)

    def step():
        o.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            loss = functional.cross_entropy(m(x), y)
        loss.backward()
        o.step()
        return loss

    return step


def build_resnet_train_amp():
    """A training step of a small ResNet, channels last, in float16."""
    return build_resnet_train(torch.float16, True)


class UBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.n1, self.c1, self.n2, self.c2 = (
            nn.GroupNorm(32, i),
            nn.Conv2d(i, o, 3, 1, 1),
            nn.GroupNorm(32, o),
            nn.Conv2d(o, o, 3, 1, 1),
        )
        self.s = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x):
        return self.c2(functional.silu(self.n2(self.c1(functional.silu(self.n1(x)))))) + self.s(x)


def build_unet():
    """A small U-Net with group norm in float16."""
    ins, d1, d2, mid, u1, u2, last = (
        m.to(D, torch.float16)
        for m in (
            nn.Conv2d(4, 128, 3, 1, 1),
            UBlock(128, 128),
            UBlock(128, 256),
            UBlock(256, 256),
            UBlock(512, 128),
            UBlock(256, 128),
            nn.Conv2d(128, 4, 3, 1, 1),
        )
    )
    x = torch.randn(4, 4, 64, 64, device=D, dtype=torch.float16)

    @torch.no_grad()
    def step():
        a = d1(ins(x))
        b = d2(functional.avg_pool2d(a, 2))
        c = mid(functional.avg_pool2d(b, 2))
        c = u1(torch.cat((functional.interpolate(c, scale_factor=2.0), b), 1))
        c = u2(torch.cat((functional.interpolate(c, scale_factor=2.0), a), 1))
        return last(c)

    return step


def build_gnn_train(n=50000, e=400000, w=128):
    """A training step of a graph network with 400,000 edges."""
    l1, l2 = nn.Linear(w, w).to(D), nn.Linear(w, w).to(D)
    x = torch.randn(n, w, device=D)
    src, dst = torch.randint(0, n, (2, e), device=D)
    ps = [*l1.parameters(), *l2.parameters()]
    o = torch.optim.Adam(ps, capturable=True)

    def apply_convolution(layer, h):
        return torch.zeros_like(h).index_add_(0, dst, layer(h)[src])

    def step():
        o.zero_grad(set_to_none=True)
        h = functional.relu(apply_convolution(l1, x))
        loss = apply_convolution(l2, h).pow(2).mean()
        loss.backward()
        o.step()
        return loss

    return step


def build_adam_kinds():
    """Steps of optimizers: fused, foreach and single."""

    def group():
        ps = [nn.Parameter(torch.randn(1024, 2048, device=D)) for _ in range(6)]
        for p in ps:
            p.grad = torch.randn_like(p)
        return ps

    os = [
        torch.optim.AdamW(group(), fused=True, capturable=True),
        torch.optim.AdamW(group(), foreach=True, capturable=True),
        torch.optim.Adam(group()[:2], foreach=False, capturable=True),
        torch.optim.SGD(group(), momentum=0.9, foreach=True),
    ]

    def step():
        for o in os:
            o.step()

    return step


def build_mixed():
    """About 60 operators on tensors of 16 to 256 MiB."""
    a = torch.randn(4096, 4096, device=D)
    h = a.half()
    i = torch.randint(0, 4096, (4096, 1024), device=D)
    w = torch.randn(4096, device=D)
    idx = torch.randint(0, 4096, (8192,), device=D)
    m = a > 0
    bmm = torch.randn(64, 256, 256, device=D, dtype=torch.bfloat16)
    em = torch.randn(4096, 512, device=D)
    im = torch.randn(16, 64, 112, 112, device=D)

    @torch.no_grad()
    def step():
        r = [
            torch.mm(h, h),
            torch.mm(a, a),
            torch.bmm(bmm, bmm),
            torch.baddbmm(bmm, bmm, bmm),
            torch.mv(a, w),
            torch.addmm(w, a, a),
        ]
        r += [
            a + w,
            a * w[:, None],
            a.t().contiguous(),
            a.half(),
            h.float(),
            torch.where(m, a, 0.0),
            a.masked_fill(m, 1.0),
            a.clone(),
        ]
        r += [
            torch.softmax(a, -1),
            torch.log_softmax(h, -1),
            functional.layer_norm(a, (4096,), w, w),
            functional.rms_norm(a, (4096,), w),
            a.sum(),
            a.sum(0),
            a.sum(1),
            a.mean(-1),
            a.amax(1),
            a.argmax(1),
            a.std(1),
            torch.linalg.vector_norm(a),
        ]
        r += [
            a[idx],
            a.gather(1, i),
            a.index_select(0, idx),
            functional.embedding(idx, em),
            torch.cat((a, a), 0),
            torch.stack((a, a), 1),
            torch.cumsum(a, 1),
            torch.sort(a[:256], 1),
            torch.topk(a, 8, 1),
        ]
        r += [
            functional.gelu(a),
            functional.silu(h),
            torch.tanh(a),
            a.pow(2),
            torch.rsqrt(a.abs()),
            a.clamp(0, 1),
            a.exp(),
            functional.dropout(a, 0.1),
            torch.rand(4096, 4096, device=D),
            torch.randn(2048, 2048, device=D),
            torch.zeros_like(a),
            torch.arange(1 << 20, device=D),
        ]
        r += [
            functional.max_pool2d(im, 3, 2, 1),
            functional.avg_pool2d(im, 2),
            functional.interpolate(im, scale_factor=2.0, mode="bilinear"),
            torch.zeros(4096, 512, device=D).index_add_(0, idx, em[idx]),
            torch.zeros(4096, 1024, device=D).scatter_add_(0, i, a[:, :1024]),
            a.tril(),
        ]
        return r

    return step


def build_attention_kinds():
    """Attention, forward and backward, in five implementations."""
    q = torch.randn(4, 16, 1024, 64, device=D, dtype=torch.bfloat16, requires_grad=True)
    f = torch.randn(4, 8, 512, 64, device=D, requires_grad=True)
    from torch.nn.attention import SDPBackend as S
    from torch.nn.attention import sdpa_kernel

    def step():
        for backend, causal in (
            (S.FLASH_ATTENTION, False),
            (S.FLASH_ATTENTION, True),
            (S.EFFICIENT_ATTENTION, False),
            (S.CUDNN_ATTENTION, True),
        ):
            with sdpa_kernel(backend):
                functional.scaled_dot_product_attention(q, q, q, is_causal=causal).sum().backward()
        with sdpa_kernel(S.EFFICIENT_ATTENTION):
            functional.scaled_dot_product_attention(f, f, f, is_causal=True).sum().backward()
        with sdpa_kernel(S.MATH):
            functional.scaled_dot_product_attention(f, f, f).sum().backward()

    return step


def build_gpt_compiled():
    """Forward and backward of two transformer layers under torch.compile."""
    m = GPT(w=768, h=12, layers=2, vocab=16000).to(D, torch.bfloat16)
    x = torch.randint(0, 16000, (8, 512), device=D)
    y = torch.randint(0, 16000, (8, 512), device=D)
    f = torch.compile(lambda x, y: functional.cross_entropy(m(x).view(-1, 16000), y.view(-1)))

    def step():
        for p in m.parameters():
            p.grad = None
        loss = f(x, y)
        loss.backward()
        return loss

    return step


def build_lstm_train(b=64, t=24, w=512):
    """A training step of a cuDNN LSTM."""
    m = nn.LSTM(w, w, 2).to(D)
    x = torch.randn(t, b, w, device=D)
    head = nn.Linear(w, 1000).to(D)
    y = torch.randint(0, 1000, (t * b,), device=D)
    o = torch.optim.RMSprop(
        [*m.parameters(), *head.parameters()], lr=1e-3, foreach=True, capturable=True
    )

    def step():
        o.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(head(m(x)[0]).view(-1, 1000), y)
        loss.backward()
        o.step()
        return loss

    return step


def build_recommender_train(rows=400000, w=64, b=8192, tables=8):
    """Eight embedding bags and a trained MLP."""
    bags = nn.ModuleList(nn.EmbeddingBag(rows, w, mode="sum") for _ in range(tables)).to(D)
    top = nn.Sequential(
        nn.Linear(w * tables, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 1)
    ).to(D)
    i = torch.randint(0, rows, (tables, b, 8), device=D)
    y = torch.rand(b, 1, device=D)

    def step():
        for p in top.parameters():
            p.grad = None
        with torch.no_grad():
            e = torch.cat([bag(i[k]) for k, bag in enumerate(bags)], 1)
        loss = functional.binary_cross_entropy_with_logits(top(e), y)
        loss.backward()
        return loss

    return step


PROGRAMS = {
    function.__name__.removeprefix("build_"): function
    for function in (
        build_mixed,
        build_gpt_train,
        build_attention_kinds,
        build_llama_decode,
        build_resnet_train,
        build_adam_kinds,
        build_gnn_train,
        build_unet,
        build_resnet_train_amp,
        build_gpt_compiled,
        build_lstm_train,
        build_recommender_train,
    )
}
