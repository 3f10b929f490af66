"""Data-parallel training with JAX over several processes: a small network learns a wavy surface.

The data lies in pieces on all processes, the model whole on each. One jitted step sees both as single arrays, and the
compiler adds the exchange of gradients.

    COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES, PROCESS_ID    as every JAXJob sets them; JAX does not read
                                                                        them by itself
"""

import os
import sys

import jax
import jax.numpy as jnp
import numpy
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh, NamedSharding, PartitionSpec

POINTS = 256  # per process
STEPS = 150
RATE = 0.1


def share(rank, world):
    """The points of one process. Every process draws all of them, so that they fit together."""
    chance = numpy.random.default_rng(7)
    points = chance.uniform(-1, 1, size=(POINTS * world, 2)).astype("float32")
    heights = numpy.sin(3 * points[:, 0]) * points[:, 1]
    mine = slice(POINTS * rank, POINTS * (rank + 1))
    return points[mine], heights[mine].astype("float32")


def initial():
    chance = numpy.random.default_rng(1)
    return {
        "in": chance.normal(size=(2, 32)).astype("float32"),
        "bias": numpy.zeros(32, "float32"),
        "out": (chance.normal(size=32) / 6).astype("float32"),
    }


def loss_of(model, points, heights):
    guesses = jnp.tanh(points @ model["in"] + model["bias"]) @ model["out"]
    return jnp.mean((guesses - heights) ** 2)


@jax.jit
def step(model, points, heights):
    loss, slopes = jax.value_and_grad(loss_of)(model, points, heights)
    return jax.tree.map(lambda value, slope: value - RATE * slope, model, slopes), loss


def is_the_same_everywhere(model):
    """Whether every process holds the same numbers, to the last bit."""
    mine = numpy.concatenate([numpy.asarray(each.addressable_data(0)).ravel() for each in jax.tree.leaves(model)])
    everyones = process_allgather(mine)
    return len(everyones) == jax.process_count() and bool((everyones == mine).all())


def main():
    address = os.environ["COORDINATOR_ADDRESS"] + ":" + os.environ["COORDINATOR_PORT"]
    rank, world = int(os.environ["PROCESS_ID"]), int(os.environ["NUM_PROCESSES"])
    # A process that dies is noticed after thirty seconds instead of a hundred.
    jax.distributed.initialize(address, world, rank, heartbeat_timeout_seconds=30)
    mesh = Mesh(numpy.array(jax.devices()), ("data",))
    pieces, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    points, heights = (jax.make_array_from_process_local_data(pieces, each) for each in share(rank, world))
    model = jax.device_put(initial(), whole)
    losses = []
    for number in range(STEPS):
        model, loss = step(model, points, heights)
        losses.append(float(loss))
        if rank == 0 and (number + 1) % 50 == 0:
            print(f"step {number + 1}/{STEPS} loss {losses[-1]:.4f}", flush=True)
    if not is_the_same_everywhere(model):
        sys.exit(f"rank {rank} holds a model that others do not hold")
    if losses[-1] > losses[0] / 4:
        sys.exit(f"nothing was learned: loss {losses[0]:.4f} became {losses[-1]:.4f}")
    print(f"rank {rank} of {world}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, the same model on all ranks", flush=True)


if __name__ == "__main__":
    main()
