"""Data-parallel training with MultiWorkerMirroredStrategy: every worker holds the whole model and a share of the data.

    TF_CONFIG    as every TFJob sets it: the addresses of all, and which of them this is
"""

import json
import os
import sys

import numpy
import tensorflow

POINTS = 600
STEPS = 80
RATE = 0.1


def points():
    """The whole data set, the same in every process."""
    chance = numpy.random.default_rng(7)
    places = chance.normal(size=(POINTS, 5)).astype("float32")
    heights = places @ numpy.array([3, -1, 2, 0.5, -2]) + 1 + 0.1 * chance.normal(size=POINTS)
    return places, heights.astype("float32")


def main():
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    strategy = tensorflow.distribute.MultiWorkerMirroredStrategy()
    world = strategy.num_replicas_in_sync
    places, heights = (tensorflow.constant(each[rank::world]) for each in points())
    with strategy.scope():
        slope, level = tensorflow.Variable(tensorflow.zeros(5)), tensorflow.Variable(0.0)

    def learn():
        with tensorflow.GradientTape() as tape:
            errors = tensorflow.linalg.matvec(places, slope) + level - heights
            loss = tensorflow.reduce_mean(errors**2)
        gradients = tape.gradient(loss, [slope, level])
        replica = tensorflow.distribute.get_replica_context()
        for variable, gradient in zip([slope, level], replica.all_reduce("MEAN", gradients)):
            variable.assign_sub(RATE * gradient)
        return loss

    @tensorflow.function
    def step():
        return strategy.reduce("MEAN", strategy.run(learn), axis=None)

    @tensorflow.function
    def models():
        mine = strategy.run(lambda: tensorflow.concat([slope, [level]], axis=0)[tensorflow.newaxis])
        return strategy.gather(mine, axis=0)

    losses = [float(step()) for _ in range(STEPS)]
    everyones = models().numpy()
    if everyones.shape != (world, 6) or not (everyones == everyones[0]).all():
        sys.exit(f"rank {rank} sees different models: {everyones}")
    if losses[-1] > losses[0] / 4:
        sys.exit(f"nothing was learned: loss {losses[0]:.4f} became {losses[-1]:.4f}")
    print(f"rank {rank} of {world}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, the same model on all ranks", flush=True)


if __name__ == "__main__":
    main()
