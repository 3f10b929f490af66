"""Training with a parameter server, with nothing but Python: what TensorFlow's parameter servers do, in small.

The server keeps the model. Each worker computes gradients on its part of the data and sends them; when all have,
the server takes a step and answers with the new parameters. A worker that is started again goes on where the
server is. One line of JSON per message:

    {"hello": 1}                                            -> {"step": 12, "parameters": [...]}
    {"worker": 1, "step": 12, "sums": [gradients, loss, right, count]}   -> the same, of the next step, and the sums
    {"worker": 1, "done": "9f2c..."}                        -> {"agreed": true}

    TF_CONFIG    as every TFJob sets it: the addresses of all, and which of them this is
"""

import json
import os
import socket
import socketserver
import sys
import threading
import time

import spirals

PATIENCE = 60  # seconds to wait for a replica that has not started yet, or has stopped answering


class Model:
    """What the server keeps, and the workers that wait for each other at it."""

    def __init__(self, workers):
        self.workers, self.step, self.sums = workers, 0, None
        self.parameters, self.optimiser = spirals.initial(), spirals.Adam()
        self.pushed, self.done = {}, {}
        self.changed = threading.Condition()

    def state(self):
        return {"step": self.step, "parameters": self.parameters, "sums": self.sums}

    def push(self, worker, step, sums):
        """Adds a worker's part to the step and waits until the step is taken."""
        with self.changed:
            if step == self.step:
                self.pushed[worker] = sums
                if len(self.pushed) == self.workers:
                    self.take_step()
                self.changed.wait_for(lambda: self.step != step, PATIENCE)
            return self.state()

    def take_step(self):
        """In the order of the workers and not of their arrival: the same numbers in every run."""
        parts = [self.pushed[worker] for worker in sorted(self.pushed)]
        self.sums = [sum(column) for column in zip(*parts)]
        self.optimiser.update(self.parameters, [slope / self.workers for slope in self.sums[: spirals.SIZE]])
        self.pushed = {}
        self.step += 1
        self.changed.notify_all()

    def finish(self, worker, name):
        """Waits until all workers are done, and says whether they and the server hold the same."""
        with self.changed:
            self.done[worker] = name
            self.changed.notify_all()
            everyone = self.changed.wait_for(lambda: len(self.done) == self.workers, PATIENCE)
            names = set(self.done.values()) | {spirals.digest(self.parameters)}
            return {"agreed": everyone and len(names) == 1}


class Handler(socketserver.StreamRequestHandler):
    """One connection of one worker."""

    def handle(self):
        model = self.server.model
        for line in self.rfile:
            message = json.loads(line)
            if "hello" in message:
                spirals.say(f"worker {message['hello']} is here, at step {model.step}")
                answer = model.state()
            elif "done" in message:
                answer = model.finish(message["worker"], message["done"])
            else:
                answer = model.push(message["worker"], message["step"], message["sums"])
            self.wfile.write(json.dumps(answer).encode() + b"\n")
            if "agreed" in answer:
                self.server.said_goodbye(message["worker"])


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address, model):
        super().__init__(address, Handler)
        self.model, self.gone = model, set()

    def said_goodbye(self, worker):
        """When every worker has its answer there is nothing left to serve."""
        self.gone.add(worker)
        if len(self.gone) == self.model.workers:
            threading.Thread(target=self.shutdown).start()


def serve(address, workers):
    host, port = address.rsplit(":", 1)
    local = host in ("localhost", "127.0.0.1", "::1")
    with Server(("127.0.0.1" if local else "", int(port)), Model(workers)) as server:
        spirals.say(f"serving {spirals.SIZE} parameters to {workers} workers on port {port}")
        server.serve_forever(poll_interval=0.05)
    spirals.say(f"done after {server.model.step} steps: parameters {spirals.digest(server.model.parameters)}")


def connect(address):
    """Replicas start in any order: try until the server is there."""
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            peer = socket.create_connection((host, int(port)), timeout=PATIENCE)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return peer.makefile("rw")
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"nobody answers at {address}: {error}")
            time.sleep(0.1)


def ask(lines, message):
    print(json.dumps(message), file=lines, flush=True)
    answer = lines.readline()
    if not answer:
        sys.exit("the parameter server has gone away")
    return json.loads(answer)


def work(index, workers, address):
    mine = spirals.points()[index::workers]
    lines = connect(address)
    state = ask(lines, {"hello": index})
    spirals.say(f"worker {index} of {workers}: {len(mine)} of {spirals.POINTS} points")
    steps = -(-spirals.POINTS // workers // spirals.BATCH)
    from_the_start = state["step"] == 0
    first = loss = accuracy = None
    totals = [0.0, 0.0, 0.0]
    while state["step"] < steps * spirals.EPOCHS:
        step = state["step"]
        start = step % steps * spirals.BATCH
        batch = mine[start : start + spirals.BATCH]
        slopes, batch_loss, right = spirals.gradient(state["parameters"], batch)
        sums = slopes + [batch_loss, right, float(len(batch))]
        state = ask(lines, {"worker": index, "step": step, "sums": sums})
        if state["step"] == step:
            sys.exit(f"the other workers did not come to step {step}")
        totals = [total + new for total, new in zip(totals, state["sums"][-3:])]
        if state["step"] % steps == 0:
            loss, accuracy = totals[0] / totals[2], totals[1] / totals[2]
            first = loss if first is None else first
            totals = [0.0, 0.0, 0.0]
            if index == 0:
                spirals.say(spirals.progress(state["step"] // steps, loss, accuracy))
    name = spirals.digest(state["parameters"])
    if not ask(lines, {"worker": index, "done": name})["agreed"]:
        sys.exit(f"worker {index} holds {name}, and others hold something else")
    # A worker that came back later has not seen the first epoch, and cannot compare.
    if from_the_start and not spirals.learned(first, loss, accuracy):
        sys.exit(f"nothing was learned: loss {first:.3f} became {loss:.3f}, accuracy {accuracy:.2f}")
    spirals.say(f"worker {index} is done: parameters {name}, the same on all workers and on the server")


def main():
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    workers, index = len(cluster["worker"]), int(task["index"])
    if task["type"] == "ps":
        serve(cluster["ps"][index], workers)
    else:
        work(index, workers, cluster["ps"][0])


if __name__ == "__main__":
    main()
