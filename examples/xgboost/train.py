"""Distributed gradient boosting: each replica holds a share of the rows, all of them grow the same trees.

Rank 0 runs the tracker through which the replicas find each other. XGBoost reads none of the variables itself.

    RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT    as every XGBoostJob sets them
"""

import hashlib
import os
import socket
import sys
import threading

import numpy
import xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker

ROWS = 3000
ROUNDS = 30
SETTINGS = {"objective": "reg:squarederror", "max_depth": 4, "eta": 0.3, "tree_method": "hist", "nthread": 1}


def table():
    """The whole data set, the same in every process."""
    chance = numpy.random.default_rng(7)
    rows = chance.uniform(-2, 2, size=(ROWS, 4))
    return rows, numpy.sin(2 * rows[:, 0]) * rows[:, 1] + rows[:, 2] ** 2 + 0.05 * chance.normal(size=ROWS)


def start_tracker(host, port, world):
    """Ranks are those of the job, since tasks are sorted by the names that `join` gives them."""
    address = socket.gethostbyname(host)
    tracker = RabitTracker(host_ip=address, port=port, n_workers=world, sortby="task")
    tracker.start()
    threading.Thread(target=tracker.wait_for, daemon=True).start()


def join(rank, host, port):
    """Replicas start in any order, so the tracker is tried again until it is there."""
    return collective.CommunicatorContext(
        dmlc_tracker_uri=host, dmlc_tracker_port=port, dmlc_task_id=f"{rank:05}", dmlc_retry=30
    )


def is_the_same_everywhere(model, rank, world):
    """Whether every replica holds the same trees: each puts a number made of its own into its place."""
    number = int.from_bytes(hashlib.sha256(model.save_raw("json")).digest()[:6], "big")
    mine = numpy.zeros(world)
    mine[rank] = number
    return bool((collective.allreduce(mine, collective.Op.SUM) == number).all())


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        start_tracker(host, port, world)
    with join(rank, host, port):
        if collective.get_rank() != rank:
            sys.exit(f"rank {rank} of the job is rank {collective.get_rank()} of the training")
        rows, targets = (each[rank::world] for each in table())
        data = xgboost.DMatrix(rows, targets)
        history = {}
        evals = [(data, "train")]
        model = xgboost.train(SETTINGS, data, ROUNDS, evals=evals, evals_result=history, verbose_eval=False)
        losses = history["train"]["rmse"]  # over the rows of all replicas
        if not is_the_same_everywhere(model, rank, world):
            sys.exit(f"rank {rank} holds a model that others do not hold")
        if losses[-1] > losses[0] / 4:
            sys.exit(f"nothing was learned: loss {losses[0]:.4f} became {losses[-1]:.4f}")
        said = f"rank {rank} of {world}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, the same model on all ranks"
        print(said, flush=True)
        # The job ends with rank 0, and with it whoever still runs: it leaves when all have said what they have.
        collective.allreduce(numpy.zeros(1), collective.Op.SUM)


if __name__ == "__main__":
    main()
