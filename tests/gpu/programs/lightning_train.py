"""A classifier trained by pytorch-lightning's Trainer, from tensors that lie in unpinned memory."""

import lightning
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Flatten(),
            torch.nn.Linear(784, 256),
            torch.nn.ReLU(),
            torch.nn.Linear(256, 256),
            torch.nn.ReLU(),
            torch.nn.Linear(256, 10),
        )

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _index: int) -> torch.Tensor:
        pictures, labels = batch
        return functional.cross_entropy(self.layers(pictures), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main() -> None:
    lightning.seed_everything(0, verbose=False)
    data = TensorDataset(torch.randn(6_400, 1, 28, 28), torch.randint(10, (6_400,)))
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="gpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Classifier()
    trainer.fit(model, DataLoader(data, batch_size=64, shuffle=True))
    print("steps", trainer.global_step)


if __name__ == "__main__":
    main()
