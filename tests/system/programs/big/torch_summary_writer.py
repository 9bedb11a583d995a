"""A torch loop with torch's SummaryWriter, as the PyTorch tutorials have it."""
import torch
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

torch.manual_seed(0)
x = torch.arange(-5, 5, 0.1).view(-1, 1)
y = -5 * x + 0.1 * torch.randn(x.size())
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
writer = SummaryWriter()
for epoch in tqdm(range(400)):
    loss = torch.nn.functional.mse_loss(model(x), y)
    writer.add_scalar("Loss/train", loss, epoch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    writer.add_histogram("weight", model.weight, epoch)
writer.add_hparams({"lr": 0.01}, {"loss": loss.item()})
writer.flush()
writer.close()
