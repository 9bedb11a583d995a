"""Accelerate with its TensorBoard tracker."""
import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration

accelerator = Accelerator(cpu=True, log_with="tensorboard", project_config=ProjectConfiguration("out", logging_dir="out"))
accelerator.init_trackers("demo", config={"lr": 0.1, "epochs": 3})
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
torch.manual_seed(0)
for step in range(200):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    accelerator.log({"loss": loss.item(), "weight": model.weight.norm().item()}, step=step)
accelerator.end_training()
