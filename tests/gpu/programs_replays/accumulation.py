"""R3: two backward passes of a graphed module into gradients that are None."""

import torch

net = torch.nn.Linear(64, 64).cuda()
x = torch.randn(8, 64, device="cuda")
graphed = torch.cuda.make_graphed_callables(net, (x,))
for parameter in net.parameters():
    parameter.grad = None
for number in range(2):
    graphed(x * (number + 1)).sum().backward()
torch.cuda.synchronize()
print("accumulated", net.bias.grad[0].item())
