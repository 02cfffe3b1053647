"""R16: kernels of 50 launches in each of five profiler sessions, after an idle time."""

import json
import time

import torch
from torch.profiler import ProfilerActivity, profile

LAUNCHES = 50
x = torch.ones(1 << 16, device="cuda")
x.mul_(1.0)
torch.cuda.synchronize()
time.sleep(8)
counts = []
for _ in range(5):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as session:
        for _ in range(LAUNCHES):
            x.mul_(1.0)
            torch.cuda.synchronize()
    kernels = [e for e in session.events() if e.device_type.name == "CUDA"]
    counts.append(sum("elementwise" in event.name for event in kernels))
print("COUNTS", json.dumps(counts))
