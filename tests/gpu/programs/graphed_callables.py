"""Graphs of parts of a network, as PyTorch's documentation does it: the branch stays in Python."""

import torch

N, D_in, H, D_out = 640, 1024, 512, 256

torch.manual_seed(0)
module1 = torch.nn.Linear(D_in, H).cuda()
module2 = torch.nn.Linear(H, D_out).cuda()
module3 = torch.nn.Linear(H, D_out).cuda()
loss_fn = torch.nn.MSELoss()
optimizer = torch.optim.SGD(
    [*module1.parameters(), *module2.parameters(), *module3.parameters()], lr=0.1
)

x = torch.randn(N, D_in, device="cuda")
h = torch.randn(N, H, device="cuda", requires_grad=True)
module1 = torch.cuda.make_graphed_callables(module1, (x,))
module2 = torch.cuda.make_graphed_callables(module2, (h,))
module3 = torch.cuda.make_graphed_callables(module3, (h,))

real_inputs = [torch.rand_like(x) for _ in range(40)]
real_targets = [torch.randn(N, D_out, device="cuda") for _ in range(40)]

for data, target in zip(real_inputs, real_targets, strict=True):
    optimizer.zero_grad(set_to_none=True)
    tmp = module1(data)
    tmp = module2(tmp) if tmp.sum().item() > 0 else module3(tmp)
    loss = loss_fn(tmp, target)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
