"""Training with ParameterServerStrategy: the model lies on the parameter server, workers compute, the chief commands.

The chief hands out steps; whichever worker is free reads the model, computes on a share of the data and changes the
model on the server. When the chief is done it leaves; servers and workers have no end of their own, and go by the
job's cleanPodPolicy.

    TF_CONFIG    as every TFJob sets it: the addresses of all, and which of them this is
"""

import sys

import numpy
import tensorflow

POINTS = 600
SHARES = 4
ROUNDS = 40
RATE = 0.05


def points():
    """The whole data set, the same in every process."""
    chance = numpy.random.default_rng(7)
    places = chance.normal(size=(POINTS, 5)).astype("float32")
    heights = places @ numpy.array([3, -1, 2, 0.5, -2]) + 1 + 0.1 * chance.normal(size=POINTS)
    return places, heights.astype("float32")


def serve(resolver):
    """What servers and workers do: wait for the chief's commands."""
    kind, index = resolver.task_type, resolver.task_id
    print(f"{kind} {index} is there", flush=True)
    spec = resolver.cluster_spec()
    tensorflow.distribute.Server(spec, job_name=kind, task_index=index, protocol="grpc").join()


class Training:
    """The model, and how a worker improves it."""

    def __init__(self, strategy):
        self.places, self.heights = points()
        with strategy.scope():
            self.slope, self.level = tensorflow.Variable(tensorflow.zeros(5)), tensorflow.Variable(0.0)

    def loss(self, share, shares):
        places, heights = tensorflow.constant(self.places)[share::shares], tensorflow.constant(self.heights)[share::shares]
        return tensorflow.reduce_mean((tensorflow.linalg.matvec(places, self.slope) + self.level - heights) ** 2)

    @tensorflow.function
    def step(self, share):
        with tensorflow.GradientTape() as tape:
            loss = self.loss(share, SHARES)
        for variable, gradient in zip([self.slope, self.level], tape.gradient(loss, [self.slope, self.level])):
            variable.assign_sub(RATE * gradient)
        return loss

    def seen_by(self, worker):
        """The model as one worker reads it from the server."""
        with tensorflow.device(f"/job:worker/replica:0/task:{worker}"):
            return tensorflow.concat([self.slope, [self.level]], axis=0).numpy()

    def say_at(self, worker, workers, first):
        """One worker computes its own loss and says it, in its own output. It has said so when this returns."""

        @tensorflow.function
        def say():
            loss = self.loss(worker, workers)
            said = f"rank {worker} of {workers}: loss {first:.4f} -> {{}}, the same model on all ranks"
            tensorflow.print(tensorflow.strings.format(said, loss), output_stream=sys.stdout)
            return loss

        with tensorflow.device(f"/job:worker/replica:0/task:{worker}"):
            return say().numpy()


def command(resolver):
    """What the chief does."""
    strategy = tensorflow.distribute.ParameterServerStrategy(resolver)
    coordinator = tensorflow.distribute.coordinator.ClusterCoordinator(strategy)
    training = Training(strategy)
    losses = []
    for _ in range(ROUNDS):
        results = [coordinator.schedule(training.step, args=(tensorflow.constant(share),)) for share in range(SHARES)]
        coordinator.join()
        losses.append(numpy.mean([result.fetch() for result in results]))
    if losses[-1] > losses[0] / 4:
        sys.exit(f"nothing was learned: loss {losses[0]:.4f} became {losses[-1]:.4f}")
    workers = resolver.cluster_spec().num_tasks("worker")
    models = [training.seen_by(worker) for worker in range(workers)]
    if not all((model == models[0]).all() for model in models):
        sys.exit(f"workers see different models: {models}")
    for worker in range(workers):
        training.say_at(worker, workers, losses[0])
    print(f"chief: loss {losses[0]:.4f} -> {losses[-1]:.4f}, with {workers} workers", flush=True)


def main():
    resolver = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("ps", "worker"):
        serve(resolver)
    else:
        command(resolver)


if __name__ == "__main__":
    main()
