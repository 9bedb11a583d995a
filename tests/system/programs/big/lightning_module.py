"""A small Lightning module: lightning_module.py csv|tensorboard"""
import sys

import lightning as L
import torch
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch.utils.data import DataLoader, TensorDataset


class Regression(L.LightningModule):
    def __init__(self, lr: float = 0.05):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def training_step(self, batch, _):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


L.seed_everything(1)
x = torch.randn(256, 4)
data = TensorDataset(x, x.sum(1, keepdim=True) + 0.1 * torch.randn(256, 1))
logger = CSVLogger("logs") if sys.argv[1] == "csv" else TensorBoardLogger("logs")
trainer = L.Trainer(max_epochs=8, log_every_n_steps=1, logger=logger, enable_progress_bar=False)
trainer.fit(Regression(), DataLoader(data, batch_size=32), DataLoader(data, batch_size=64))
