"""Uses jobs as programs with upstream's SDK do: PyPI's `kubeflow-training`, and nothing of it but its public interface.

    sdk.py KUBECONFIG FOLDER    the server, and an empty folder of this machine. The server has to know the image
                                `registry.example/greeter`, whose program says "hello", and has to find `python`.

Each check prints one line.
"""

import contextlib
import io
import sys
import threading
import time
import uuid
import zipfile
from pathlib import Path

from kubeflow.training import TrainingClient, models

KUBECONFIG, FOLDER = sys.argv[1], Path(sys.argv[2])
PATIENCE = 180
# Kind, container, field, its replicas with their number, and which of them has the role of the master: the first of its type.
KINDS = [
    ("PyTorchJob", "pytorch", "pytorch_replica_specs", {"Master": 1, "Worker": 2}, "Master"),
    ("TFJob", "tensorflow", "tf_replica_specs", {"Chief": 1, "PS": 1, "Worker": 2}, "Chief"),
    ("XGBoostJob", "xgboost", "xgb_replica_specs", {"Master": 1, "Worker": 2}, "Master"),
    ("MPIJob", "mpi", "mpi_replica_specs", {"Launcher": 1, "Worker": 2}, "Launcher"),
    ("PaddleJob", "paddle", "paddle_replica_specs", {"Master": 1, "Worker": 1}, "Master"),
    ("JAXJob", "jax", "jax_replica_specs", {"Worker": 2}, "Worker"),
]


def ok(what):
    print("ok:", what, flush=True)


def eventually(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def refused(said, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except RuntimeError as error:
        assert said in str(error), error
        return
    raise AssertionError(f"{call.__name__} was not refused")


class Kind:
    """Jobs of one kind, made of the SDK's models."""

    def __init__(self, kind, container, field, replicas, master):
        self.kind, self.container, self.field, self.replicas, self.master = kind, container, field, replicas, master
        self.client = TrainingClient(config_file=KUBECONFIG, job_kind=kind)
        self.name = f"{kind.lower()}-{uuid.uuid4().hex[:5]}"

    def job(self, name, script, restart="Never", roles=None, **policy):
        container = models.V1Container(name=self.container, image="none", command=["sh", "-c", script])
        template = models.V1PodTemplateSpec(spec=models.V1PodSpec(containers=[container]))
        specs = {
            role: models.KubeflowOrgV1ReplicaSpec(replicas=number, restart_policy=restart, template=template)
            for role, number in (roles or self.replicas).items()
        }
        spec = {self.field: specs, "run_policy": models.KubeflowOrgV1RunPolicy(**policy)}
        if self.kind == "MPIJob":
            spec["slots_per_worker"] = 1
        return getattr(models, f"KubeflowOrgV1{self.kind}")(
            api_version="kubeflow.org/v1",
            kind=self.kind,
            metadata=models.V1ObjectMeta(name=name, namespace="default"),
            spec=getattr(models, f"KubeflowOrgV1{self.kind}Spec")(**spec),
        )

    def wait(self, name, *conditions, **more):
        return self.client.wait_for_job_conditions(
            name, expected_conditions=set(conditions), wait_timeout=PATIENCE, polling_interval=0.05, **more
        )

    def states(self, name):
        names = ["created", "running", "restarting", "succeeded", "failed"]
        return [state for state in names if getattr(self.client, f"is_job_{state}")(name)]

    def pod(self, role, index):
        # There is but one launcher, and it has no number.
        return f"{self.name}-launcher" if role == "Launcher" else f"{self.name}-{role.lower()}-{index}"

    def pods(self):
        return sorted(self.pod(role, index) for role, number in self.replicas.items() for index in range(number))


def a_life(kind):
    """A job from its creation to its end, looked at in every way."""
    go, client, name = FOLDER / kind.name, kind.client, kind.name
    script = f'while [ ! -e {go} ]; do sleep 0.05; done; echo "$HOSTNAME is done"; echo "for good"'
    client.create_job(kind.job(name, script))
    refused("AlreadyExists", client.create_job, kind.job(name, script))
    job = kind.wait(name, "Running")
    assert job.metadata.name == name and job.metadata.uid and job.status.start_time, job
    assert kind.states(name) == ["created", "running"], kind.states(name)
    assert name in [each.metadata.name for each in client.list_jobs()]
    assert [each.type for each in client.get_job_conditions(name)] == ["Created", "Running"]
    assert client.get_job_conditions(job=client.get_job(name))[0].reason == f"{kind.kind}Created"
    look_at_pods(kind)
    change(kind)
    follow(kind, go)
    seen = []
    job = kind.wait(name, "Succeeded", callback=seen.append)
    assert seen and job.status.completion_time, job.status
    assert kind.states(name) == ["created", "succeeded"], kind.states(name)
    the_end(kind)
    ok(f"{kind.kind}: a life")


def look_at_pods(kind):
    client, name = kind.client, kind.name
    eventually("all pods run", lambda: [p.status.phase for p in client.get_job_pods(name)] == ["Running"] * len(kind.pods()))
    assert sorted(client.get_job_pod_names(name)) == kind.pods(), client.get_job_pod_names(name)
    for role, number in kind.replicas.items():
        found = client.get_job_pod_names(name, replica_type=role.lower())
        assert sorted(found) == [kind.pod(role, index) for index in range(number)], found
        found = client.get_job_pod_names(name, replica_type=role.lower(), replica_index=number - 1)
        assert found == ([] if role == "Launcher" else [kind.pod(role, number - 1)]), found
    masters = client.get_job_pod_names(name, is_master=True)
    assert masters == [kind.pod(kind.master, 0)], masters


def change(kind):
    """An update is a patch: what it does not name stays."""
    before = kind.client.get_job(kind.name)
    job = kind.job(kind.name, "unused", backoff_limit=4)
    job.metadata.labels = {"colour": "blue"}
    setattr(job.spec, kind.field, getattr(before.spec, kind.field))
    kind.client.update_job(job, kind.name)
    after = kind.client.get_job(kind.name)
    assert after.spec.run_policy.backoff_limit == 4 and after.metadata.labels == {"colour": "blue"}, after
    assert after.metadata.uid == before.metadata.uid
    assert getattr(after.spec, kind.field) == getattr(before.spec, kind.field)
    refused("NotFound", kind.client.update_job, job, "no-such-job")


def follow(kind, go):
    """Followed logs end with the pods, and are those that can be read afterwards."""
    followed, printed = {}, io.StringIO()

    def read():
        with contextlib.redirect_stdout(printed):
            followed.update(kind.client.get_job_logs(kind.name, is_master=False, follow=True)[0])

    thread = threading.Thread(target=read)
    thread.start()
    go.touch()
    thread.join(PATIENCE)
    assert {pod: f"{pod} is donefor good" for pod in kind.pods()} == followed, followed
    assert f"[Pod {kind.pods()[0]}]: {kind.pods()[0]} is done" in printed.getvalue(), printed.getvalue()


def the_end(kind):
    client, name = kind.client, kind.name
    logs, events = client.get_job_logs(name, is_master=False, verbose=True)
    assert logs == {pod: f"{pod} is done\nfor good\n" for pod in kind.pods()}, logs
    logs, _ = client.get_job_logs(name)
    assert len(logs) == 1, logs
    assert any("Created pod" in line for line in events[f"{kind.kind.lower()}/{name}"]), events
    client.delete_job(name)
    eventually("the job is gone", lambda: name not in [each.metadata.name for each in client.list_jobs()])
    eventually("its pods go with it", lambda: not client.get_job_pods(name))
    refused("NotFound", client.get_job, name)
    refused("NotFound", client.delete_job, name)


def failures(kind):
    name = f"{kind.name}-bad"
    kind.client.create_job(kind.job(name, "echo no; exit 3"))
    refused("is Failed", kind.wait, name, "Succeeded")
    job = kind.wait(name, "Failed")
    assert job.status.conditions[-1].reason == f"{kind.kind}Failed", job.status.conditions
    assert "failed" in kind.states(name) and "succeeded" not in kind.states(name), kind.states(name)
    kind.client.delete_job(name, delete_options=models.V1DeleteOptions(grace_period_seconds=0))
    refused("Invalid", kind.client.create_job, kind.job("Not_A_Name", "true"))
    ok(f"{kind.kind}: failures")


def restarts(kind):
    """Failures that are tried again: first at once, then after a while in which the job says that it restarts."""
    name, roles = f"{kind.name}-again", {next(iter(kind.replicas)): 1}
    kind.client.create_job(kind.job(name, "exit 200", restart="ExitCode", roles=roles, backoff_limit=3))
    kind.wait(name, "Restarting")
    eventually("it restarts", lambda: kind.states(name) == ["created", "restarting"])
    kind.client.delete_job(name)
    ok(f"{kind.kind}: restarts")


def index(package):
    """A package index of one package, in a folder of this machine."""
    wheel = FOLDER / "simple" / package.replace("_", "-") / f"{package}-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(f"{package}.py", "GREETING = 'hello from a package'\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    return (FOLDER / "simple").as_uri()


def train(parameters):
    import json
    import os

    import greetings_of_trainyard

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(f"{task['type']} {task['index']}: {greetings_of_trainyard.GREETING}, rate {parameters['rate']}")
    print(os.environ["COLOUR"], "$HOME", '"quoted"')


def functions_of_tensorflow():
    client = TrainingClient(config_file=KUBECONFIG, job_kind="TFJob")
    name = f"function-{uuid.uuid4().hex[:5]}"
    client.create_job(
        name=name,
        train_func=train,
        parameters={"rate": 0.1},
        base_image="python:3.12-slim",
        num_workers=2,
        num_chief_replicas=1,
        packages_to_install=["greetings_of_trainyard"],
        pip_index_url=index("greetings_of_trainyard"),
        env_vars={"COLOUR": "blue"},
        resources_per_worker={"cpu": "100m", "memory": "200Mi"},
        labels={"made-by": "a-function"},
        queue_name="no-such-queue",
    )
    finish(client, name)
    logs, _ = client.get_job_logs(name, is_master=False)
    assert len(logs) == 3, logs
    for pod, log in logs.items():
        kind, number = pod.removeprefix(f"{name}-").split("-")
        assert f"{kind} {number}: hello from a package, rate 0.1\nblue" in log, log
    job = client.get_job(name)
    assert job.metadata.labels == {"made-by": "a-function"}, job.metadata.labels
    client.delete_job(name)
    ok("TFJob: from a function, with a package of its own")


def train_together():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    number = torch.tensor([dist.get_rank() + 1.0])
    dist.all_reduce(number)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} got {number.item()}")
    dist.barrier()


def functions_of_pytorch():
    """With several workers the SDK starts torchrun, which finds the others by the variables of the job."""
    client = TrainingClient(config_file=KUBECONFIG)
    name = f"function-{uuid.uuid4().hex[:5]}"
    # Debian's torchrun with Python 3.11 fails without these two; others do not need them.
    debian = {"PET_REDIRECTS": "9:1", "PET_TEE": "9:1"}
    client.create_job(
        name=name,
        train_func=train_together,
        base_image="docker.io/pytorch/pytorch:2.1.2",
        num_workers=3,
        num_procs_per_worker=1,
        env_vars={**debian, "OMP_NUM_THREADS": "1"},
    )
    pods = [f"{name}-master-0", f"{name}-worker-0", f"{name}-worker-1"]
    eventually("three pods", lambda: sorted(client.get_job_pod_names(name)) == pods)
    finish(client, name)
    logs, _ = client.get_job_logs(name, is_master=False)
    said = sorted(line for log in logs.values() for line in log.splitlines() if line.startswith("rank "))
    assert said == [f"rank {rank} of 3 got 6.0" for rank in range(3)], logs
    client.delete_job(name)
    ok("PyTorchJob: from a function, over torchrun")


def images():
    for kind in ["PyTorchJob", "TFJob"]:
        client = TrainingClient(config_file=KUBECONFIG, job_kind=kind)
        name = f"image-{uuid.uuid4().hex[:5]}"
        client.create_job(name=name, base_image="registry.example/greeter:2", num_workers=2)
        finish(client, name)
        logs, _ = client.get_job_logs(name, is_master=False)
        # One decides. The other one is left out if the job ends before it has started.
        decides = f"{name}-master-0" if kind == "PyTorchJob" else f"{name}-worker-0"
        assert logs[decides] == "hello\n" and set(logs.values()) == {"hello\n"}, logs
        client.delete_job(name)
    ok("PyTorchJob, TFJob: from an image")


def finish(client, name):
    """Waits for the end, and for the pods that may outlive it; a failure shows what they said."""
    try:
        client.wait_for_job_conditions(name, wait_timeout=PATIENCE, polling_interval=0.05)
        eventually("all pods end", lambda: all(p.status.phase == "Succeeded" for p in client.get_job_pods(name)))
    except Exception:
        print(client.get_job_logs(name, is_master=False), file=sys.stderr)
        raise


for row in KINDS:
    kind = Kind(*row)
    a_life(kind)
    failures(kind)
    restarts(kind)
functions_of_tensorflow()
functions_of_pytorch()
images()
