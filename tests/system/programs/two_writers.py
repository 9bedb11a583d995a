"""Two processes that write event files into one directory, as distributed trainings do."""
import multiprocessing
import math

from tensorboardX import SummaryWriter


def work(rank):
    writer = SummaryWriter("runs/shared", filename_suffix=f".rank{rank}")
    for step in range(200):
        writer.add_scalar(f"rank{rank}/loss", math.exp(-step / 50) + rank, step)
    writer.close()


if __name__ == "__main__":
    processes = [multiprocessing.Process(target=work, args=(rank,)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
