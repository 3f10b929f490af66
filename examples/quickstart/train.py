"""Data-parallel training over an all-reduce, with nothing but Python: what torch.distributed does, in small.

Every replica holds the whole model and a part of the data. They meet at MASTER_ADDR:MASTER_PORT, form a ring,
and after each batch add up their gradients around it, so that all of them take the same step.

    RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT    as every PyTorchJob sets them
"""

import json
import os
import socket
import sys
import time
from array import array

import spirals

PATIENCE = 60  # seconds to wait for a replica that has not started yet, or has stopped answering


def listen(host, port):
    """A listening socket; on a port that was in use a moment ago too. Loopback stays loopback."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((host, port))
    server.listen(64)
    server.settimeout(PATIENCE)
    return server


def connect(host, port):
    """Replicas start in any order: try until the other side is there."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            peer = socket.create_connection((host, port), timeout=PATIENCE)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return peer
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"nobody answers at {host}:{port}: {error}")
            time.sleep(0.1)


def accept(server):
    peer, _ = server.accept()
    peer.settimeout(PATIENCE)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def receive(peer, size):
    data = b""
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            sys.exit("a replica has gone away")
        data += part
    return data


class Ring:
    """Each replica sends to the one after it and hears from the one before it."""

    def __init__(self, rank, world, host, port):
        self.rank, self.world = rank, world
        if world == 1:
            return
        if rank == 0:
            addresses = self.gather(host, port)
        else:
            addresses = self.register(host, port)
        after = addresses[(rank + 1) % world]
        self.after = connect(*after)
        self.before = accept(self.server)

    def gather(self, host, port):
        """Rank 0 hears from everyone where it listens, and tells everyone."""
        local = host in ("localhost", "127.0.0.1", "::1")
        door = listen("127.0.0.1" if local else "", port)
        self.server = listen("127.0.0.1" if local else "", 0)
        addresses = [(host, self.server.getsockname()[1])] + [None] * (self.world - 1)
        peers = []
        while len(peers) < self.world - 1:
            peer = accept(door)
            lines = peer.makefile("rw")
            rank, ring_port = json.loads(lines.readline())
            addresses[rank] = (peer.getpeername()[0], ring_port)
            peers.append(lines)
            spirals.say(f"rank {rank} is here, {len(peers) + 1} of {self.world}")
        for lines in peers:
            print(json.dumps(addresses), file=lines, flush=True)
        door.close()
        return addresses

    def register(self, host, port):
        """The others say where they listen, and learn where everyone does."""
        master = connect(host, port)
        self.server = listen(master.getsockname()[0], 0)
        lines = master.makefile("rw")
        print(json.dumps([self.rank, self.server.getsockname()[1]]), file=lines, flush=True)
        answer = lines.readline()
        if not answer:
            sys.exit("the master has gone away")
        return [tuple(address) for address in json.loads(answer)]

    def pass_on(self, data):
        """Sends to the next, hears from the one before. A few hundred bytes: they fit into the sockets' buffers."""
        self.after.sendall(len(data).to_bytes(4, "big") + data)
        return receive(self.before, int.from_bytes(receive(self.before, 4), "big"))

    def all_reduce(self, values):
        """The sum over all replicas. Each part is added up on its way around the ring and then handed around, so
        that everyone gets not only about the same sum but the same bits."""
        bounds = [len(values) * part // self.world for part in range(self.world + 1)]
        for step in range(2 * (self.world - 1)):
            send, hear = (self.rank - step) % self.world, (self.rank - step - 1) % self.world
            outgoing = array("d", values[bounds[send] : bounds[send + 1]])
            incoming = array("d", self.pass_on(outgoing.tobytes()))
            start = bounds[hear]
            for index, value in enumerate(incoming):
                values[start + index] = values[start + index] + value if step < self.world - 1 else value
        return values

    def all_equal(self, text):
        """Whether everyone says the same."""
        seen, same = text.encode(), True
        for _ in range(self.world - 1):
            seen = self.pass_on(seen)
            same = same and seen == text.encode()
        return same


def main():
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    ring = Ring(rank, world, os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", 23456)))
    mine = spirals.points()[rank::world]
    spirals.say(f"rank {rank} of {world}: {len(mine)} of {spirals.POINTS} points")
    parameters, optimiser = spirals.initial(), spirals.Adam()
    steps = -(-spirals.POINTS // world // spirals.BATCH)  # the same for everyone, or the ring would stop
    first = loss = accuracy = None
    for epoch in range(1, spirals.EPOCHS + 1):
        totals = [0.0, 0.0, 0.0]
        for step in range(steps):
            batch = mine[step * spirals.BATCH : (step + 1) * spirals.BATCH]
            slopes, batch_loss, right = spirals.gradient(parameters, batch)
            *slopes, batch_loss, right, count = ring.all_reduce(slopes + [batch_loss, right, float(len(batch))])
            optimiser.update(parameters, [slope / world for slope in slopes])
            totals = [total + new for total, new in zip(totals, (batch_loss, right, count))]
        loss, accuracy = totals[0] / totals[2], totals[1] / totals[2]
        first = loss if first is None else first
        if rank == 0:
            spirals.say(spirals.progress(epoch, loss, accuracy))
    name = spirals.digest(parameters)
    if not ring.all_equal(name):
        sys.exit(f"rank {rank} holds {name}, and others hold something else")
    if not spirals.learned(first, loss, accuracy):
        sys.exit(f"nothing was learned: loss {first:.3f} became {loss:.3f}, accuracy {accuracy:.2f}")
    spirals.say(f"rank {rank} is done: parameters {name}, the same on all {world} replicas")


if __name__ == "__main__":
    main()
