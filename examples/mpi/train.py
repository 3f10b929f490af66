"""A linear model, trained by MPI: each rank holds a share of the rows and all of them add up their gradients.

`mpirun` in the launcher starts it in the workers; see mpijob.yaml.
"""

import sys

import numpy
from mpi4py import MPI

ROWS, FEATURES = 600, 6
STEPS, RATE = 80, 0.2


def table():
    """The whole data set, the same in every process."""
    chance = numpy.random.default_rng(11)
    rows = chance.normal(size=(ROWS, FEATURES))
    return rows, rows @ numpy.linspace(-2, 3, FEATURES) + 0.01 * chance.normal(size=ROWS)


def main():
    everyone = MPI.COMM_WORLD
    rank, world = everyone.Get_rank(), everyone.Get_size()
    rows, targets = (each[rank::world] for each in table())
    weights, losses = numpy.zeros(FEATURES), []
    for _ in range(STEPS):
        errors = rows @ weights - targets
        mine = numpy.append(rows.T @ errors, errors @ errors)
        sums = numpy.empty_like(mine)
        everyone.Allreduce(mine, sums, op=MPI.SUM)
        losses.append(sums[-1] / ROWS)
        weights -= RATE * sums[:-1] / ROWS
    if len(set(everyone.allgather(weights.tobytes()))) != 1:
        sys.exit(f"rank {rank} holds a model that others do not hold")
    if losses[-1] > losses[0] / 100:
        sys.exit(f"nothing was learned: loss {losses[0]:.4f} became {losses[-1]:.4f}")
    for turn in range(world):
        # One after the other: lines of several ranks shall not run into each other.
        if turn == rank:
            said = f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, the same model on all ranks"
            print(f"rank {rank} of {world}: {said}", flush=True)
        everyone.Barrier()


if __name__ == "__main__":
    main()
