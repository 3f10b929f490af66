"""Collective training with Paddle over gloo: every replica fits the same plane to its share of the points.

`python -m paddle.distributed.launch` reads the variables of the job, settles the ranks where all meet, and starts
this program. Ranks need not follow the replicas' numbers.

    PADDLE_MASTER, PADDLE_NNODES, PADDLE_JOB_ID    as every PaddleJob sets them
"""

import sys

import numpy
import paddle
import paddle.distributed as dist

POINTS = 600
STEPS = 80


def points():
    """The whole data set, the same in every process."""
    chance = numpy.random.default_rng(7)
    places = chance.normal(size=(POINTS, 5)).astype("float32")
    heights = places @ numpy.array([3, -1, 2, 0.5, -2]) + 1 + 0.1 * chance.normal(size=POINTS)
    return places, heights.astype("float32")[:, None]


def mean(tensor, world):
    """The average over all replicas."""
    total = tensor.detach().clone()
    dist.all_reduce(total)
    return total / world


def is_the_same_everywhere(model):
    """Whether every replica holds the same numbers, to the last bit."""
    mine = paddle.concat([each.detach().flatten() for each in model.parameters()])
    everyones = []
    dist.all_gather(everyones, mine)
    return all((other.numpy() == mine.numpy()).all() for other in everyones)


def main():
    paddle.set_device("cpu")
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    places, heights = (paddle.to_tensor(each[rank::world]) for each in points())
    model = paddle.nn.Linear(5, 1)
    for each in model.parameters():
        dist.broadcast(each, src=0)
    optimiser = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    losses = []
    for _ in range(STEPS):
        loss = ((model(places) - heights) ** 2).mean()
        loss.backward()
        for each in model.parameters():
            each.grad.set_value(mean(each.grad, world))
        optimiser.step()
        optimiser.clear_grad()
        losses.append(float(mean(loss, world)))
    if not is_the_same_everywhere(model):
        sys.exit(f"rank {rank} holds a model that others do not hold")
    if losses[-1] > losses[0] / 4:
        sys.exit(f"nothing was learned: loss {losses[0]:.4f} became {losses[-1]:.4f}")
    print(f"rank {rank} of {world}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, the same model on all ranks", flush=True)


if __name__ == "__main__":
    main()
