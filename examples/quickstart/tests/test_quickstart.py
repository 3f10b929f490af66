"""The quick-start programs, started as replicas of a job on one machine are: python3 -m unittest discover examples/quickstart/tests"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start(program, env):
    command = [sys.executable, "-u", f"examples/quickstart/{program}"]
    env = {"PATH": os.environ["PATH"], **env}
    return subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def end(process):
    output, _ = process.communicate(timeout=90)
    return process.returncode, output


def ranks(world, port):
    fixed = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world)}
    return [{**fixed, "RANK": str(rank)} for rank in range(world)]


def cluster(workers):
    ports = free_ports(workers + 1)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    whole = {"ps": addresses[:1], "worker": addresses[1:]}
    tasks = [("ps", 0)] + [("worker", index) for index in range(workers)]
    config = [{"cluster": whole, "task": {"type": kind, "index": index}, "environment": "cloud"} for kind, index in tasks]
    return [{"TF_CONFIG": json.dumps(each)} for each in config]


class QuickStart(unittest.TestCase):
    def run_all(self, program, environments, pause=0.0):
        """Starts the replicas in any order; gives their outputs in the order of the environments."""
        order = list(range(len(environments)))
        random.shuffle(order)
        processes = {}
        for number in order:
            processes[number] = start(program, environments[number])
            time.sleep(pause)
        ends = [end(processes[number]) for number in range(len(environments))]
        for code, output in ends:
            self.assertEqual(code, 0, f"{order}: {output}")
        return [output for _, output in ends]

    def same_everywhere(self, outputs):
        names = {re.search("parameters ([0-9a-f]{16})", output).group(1) for output in outputs}
        self.assertEqual(len(names), 1, names)

    def test_ranks_learn_together_and_use_the_port_again_at_once(self):
        (port,) = free_ports(1)
        for pause in (0.0, 0.5):
            outputs = self.run_all("train.py", ranks(3, port), pause)
            self.same_everywhere(outputs)
            self.assertRegex(outputs[0], r"epoch 1/\d+ loss \d\.\d+ accuracy \d\.\d+")

    def test_any_number_of_ranks(self):
        for world in (1, 2, 5):
            (port,) = free_ports(1)
            self.same_everywhere(self.run_all("train.py", ranks(world, port)))

    def test_a_rank_that_dies_ends_the_others(self):
        (port,) = free_ports(1)
        processes = [start("train.py", env) for env in ranks(3, port)]
        wait_for(processes[0], "epoch 1/")
        processes[2].kill()
        codes = [end(process)[0] for process in processes]
        self.assertEqual(codes[2], -signal.SIGKILL)
        self.assertTrue(codes[0] > 0 and codes[1] > 0, codes)

    def test_workers_learn_through_the_server(self):
        self.same_everywhere(self.run_all("train_ps.py", cluster(2), 0.3))

    def test_a_worker_that_is_started_again_goes_on(self):
        environments = cluster(2)
        server, first, second = [start("train_ps.py", env) for env in environments]
        wait_for(first, "epoch 2/")
        second.kill()
        end(second)
        second = start("train_ps.py", environments[2])
        ends = [end(process) for process in (server, first, second)]
        self.assertEqual([code for code, _ in ends], [0, 0, 0], ends)
        self.same_everywhere([output for _, output in ends])

    def test_the_manifests_start_these_programs(self):
        for manifest in HERE.glob("*.yaml"):
            for program in re.findall(r"command: \[python3, -u, (\S+)\]", manifest.read_text()):
                self.assertTrue((ROOT / program).is_file(), program)


def wait_for(process, text):
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"it ended without {text!r}")


if __name__ == "__main__":
    unittest.main()
