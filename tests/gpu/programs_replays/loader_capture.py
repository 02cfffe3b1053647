"""R13: captures in global mode while a data loader pins memory in another thread."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class GrowingRows(Dataset):
    """Each sample is larger than the last, so that each needs new pinned memory."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones((index + 1) << 18)


if __name__ == "__main__":
    x = torch.ones(64, device="cuda")
    loader = DataLoader(GrowingRows(), batch_size=None, num_workers=2, pin_memory=True)
    for number, _ in enumerate(loader):
        if number < 2:
            continue
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2  # FAILS
            time.sleep(0.05)
            y += 1
    print("captured")
