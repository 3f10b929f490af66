"""Data-parallel training with torch.distributed over gloo: a small network learns to read ten digits through noise.

Every replica holds the whole model and a share of the pictures; DistributedDataParallel averages the gradients.

    RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT    as every PyTorchJob sets them
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

# Three dots wide, five high: the digits 0 to 9, row by row.
DIGITS = """
111101101101111 010110010010111 111001111100111 111001111001111 101101111001001
111100111001111 111100111101111 111001001001001 111101111101111 111101111001111
""".split()
PICTURES = 2000
EPOCHS = 30


def pictures():
    """The whole data set, the same in every process: dots that are on or off, and noise."""
    chance = torch.Generator().manual_seed(7)
    clean = torch.tensor([[float(dot) for dot in digit] for digit in DIGITS])
    labels = torch.arange(PICTURES) % len(DIGITS)
    return clean[labels] + 0.3 * torch.randn(PICTURES, clean.shape[1], generator=chance), labels


def mean(value, world):
    """The average over all replicas."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total.item() / world


def is_the_same_everywhere(model, world):
    """Whether every replica holds the same numbers, to the last bit."""
    mine = torch.cat([each.detach().flatten() for each in model.parameters()])
    all_of_them = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(all_of_them, mine)
    return all(torch.equal(mine, other) for other in all_of_them)


def main():
    torch.set_num_threads(1)  # several replicas share this machine's processors
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    images, labels = (each[rank::world] for each in pictures())
    torch.manual_seed(rank)  # replicas begin differently; DistributedDataParallel makes them equal
    network = torch.nn.Sequential(torch.nn.Linear(15, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    model = DistributedDataParallel(network)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for epoch in range(EPOCHS):
        loss = cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(mean(loss, world))
        if rank == 0 and (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1}/{EPOCHS} loss {losses[-1]:.4f}", flush=True)
    if not is_the_same_everywhere(model, world):
        sys.exit(f"rank {rank} holds a model that others do not hold")
    if losses[-1] > losses[0] / 4:
        sys.exit(f"nothing was learned: loss {losses[0]:.4f} became {losses[-1]:.4f}")
    print(f"rank {rank} of {world}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, the same model on all ranks", flush=True)
    # Nobody leaves while others still talk to them. The end of the process closes the group: in torch 1.13
    # destroy_process_group() can wait for ever for a thread that waits for the interpreter's lock.
    dist.barrier()


if __name__ == "__main__":
    main()
