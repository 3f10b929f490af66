"""Uses an API server as programs in Python do. Each check prints one line; what it prints must not depend on the server."""

import threading
import time
import uuid

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

config.load_kube_config()
core = client.CoreV1Api()
apps = client.AppsV1Api()
batch = client.BatchV1Api()
custom = client.CustomObjectsApi()
extensions = client.ApiextensionsV1Api()
NAMESPACE = f"py-{uuid.uuid4().hex[:8]}"
PATIENCE = 180


def ok(what):
    print("ok:", what, flush=True)


def eventually(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def refused(code, reason, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == code and f'"reason":"{reason}"' in error.body, (error.status, error.body)
        return
    raise AssertionError(f"{call.__name__} was not refused")


def objects():
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    wanted = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a", labels={"x": "y"}), data={"k": "v"})
    made = core.create_namespaced_config_map(NAMESPACE, wanted)
    assert made.metadata.uid and made.data == {"k": "v"}
    refused(409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, wanted)
    refused(404, "NotFound", core.read_namespaced_config_map, "nothing", NAMESPACE)
    core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"k": None, "l": "w"}})
    assert core.read_namespaced_config_map("a", NAMESPACE).data == {"l": "w"}
    made.data = {"late": "1"}
    refused(409, "Conflict", core.replace_namespaced_config_map, "a", NAMESPACE, made)
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="x in (y)", limit=1)
    assert [item.metadata.name for item in listed.items] == ["a"]
    core.create_namespaced_secret(NAMESPACE, client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"t": "u"}))
    assert core.read_namespaced_secret("s", NAMESPACE).data == {"t": "dQ=="}
    ok("objects are made, read, changed and refused")


def template(name, policy="Never"):
    container = client.V1Container(name="main", image="busybox:1", command=["sleep", "1"],
                                   resources=client.V1ResourceRequirements(limits={"cpu": "0.5"}))
    spec = client.V1PodSpec(containers=[container], restart_policy=policy, scheduler_name="none")
    return client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={"app": name}), spec=spec)


def workloads():
    body = template("pod")
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="pod", labels={"app": "pod"}), spec=body.spec)
    made = core.create_namespaced_pod(NAMESPACE, pod)
    assert made.spec.containers[0].resources.requests == {"cpu": "500m"}, made.spec.containers[0].resources
    assert made.status.phase == "Pending" and made.status.qos_class == "Burstable"
    core.patch_namespaced_pod_status("pod", NAMESPACE, {"status": {"phase": "Running"}})
    running = core.list_namespaced_pod(NAMESPACE, field_selector="status.phase=Running")
    assert [item.metadata.name for item in running.items] == ["pod"]
    selector = client.V1LabelSelector(match_labels={"app": "web"})
    spec = client.V1DeploymentSpec(replicas=2, selector=selector, template=template("web", "Always"))
    apps.create_namespaced_deployment(NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
    pods = lambda: core.list_namespaced_pod(NAMESPACE, label_selector="app=web").items
    eventually("the deployment has its pods", lambda: len(pods()) == 3)
    batch.create_namespaced_job(NAMESPACE, client.V1Job(metadata=client.V1ObjectMeta(name="job"),
                                                        spec=client.V1JobSpec(template=template("job"))))
    eventually("the job has its pod", lambda: batch.read_namespaced_job("job", NAMESPACE).status.active == 1)
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Foreground")
    eventually("the pods go with the deployment", lambda: not pods())
    batch.delete_namespaced_job("job", NAMESPACE, propagation_policy="Background")
    ok("pods, deployments and jobs")


def watching():
    seen = []

    def follow():
        stream = watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, label_selector="watched=yes", timeout_seconds=PATIENCE)
        for event in stream:
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return

    thread = threading.Thread(target=follow, daemon=True)
    labels = {"watched": "yes"}
    core.create_namespaced_config_map(NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="w", labels=labels)))
    thread.start()
    eventually("the watch has begun", lambda: seen)
    core.patch_namespaced_config_map("w", NAMESPACE, {"data": {"k": "v"}})
    eventually("the change is seen", lambda: len(seen) == 2)
    core.delete_namespaced_config_map("w", NAMESPACE)
    thread.join(PATIENCE)
    assert seen == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")], seen
    ok("a watch sees every change")


def custom_resources():
    group, plural = f"{NAMESPACE}.example.com", "cogs"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}}}}}
    extensions.create_custom_resource_definition({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": "cog", "kind": "Cog"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]},
    })

    def is_established():
        status = extensions.read_custom_resource_definition(f"{plural}.{group}").status
        return any(c.type == "Established" and c.status == "True" for c in (status.conditions or []) if status)

    eventually("the definition is established", is_established)
    cog = {"apiVersion": f"{group}/v1", "kind": "Cog", "metadata": {"name": "c"}, "spec": {"size": 3, "colour": "red"}}
    eventually("the resource is served", lambda: is_served(group, plural))
    made = custom.create_namespaced_custom_object(group, "v1", NAMESPACE, plural, cog)
    assert made["spec"] == {"size": 3}, made
    cog["metadata"]["name"], cog["spec"] = "d", {"size": 10}
    refused(422, "Invalid", custom.create_namespaced_custom_object, group, "v1", NAMESPACE, plural, cog)
    custom.patch_namespaced_custom_object(group, "v1", NAMESPACE, plural, "c", {"spec": {"size": 4}})
    found = custom.list_namespaced_custom_object(group, "v1", NAMESPACE, plural)
    assert [item["spec"]["size"] for item in found["items"]] == [4]
    cogs = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version=f"{group}/v1", kind="Cog")
    assert cogs.get(name="c", namespace=NAMESPACE).spec.size == 4
    applied = {"apiVersion": f"{group}/v1", "kind": "Cog", "metadata": {"name": "c"}, "spec": {"size": 5}}
    cogs.server_side_apply(applied, name="c", namespace=NAMESPACE, field_manager="py", force_conflicts=True)
    assert cogs.get(name="c", namespace=NAMESPACE).spec.size == 5
    extensions.delete_custom_resource_definition(f"{plural}.{group}")
    ok("custom resources, typed and dynamic")


def is_served(group, plural):
    try:
        custom.list_namespaced_custom_object(group, "v1", NAMESPACE, plural)
        return True
    except ApiException as error:
        if error.status != 404:
            raise
        return False


def access():
    attributes = client.V1ResourceAttributes(namespace=NAMESPACE, verb="delete", resource="pods")
    body = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    assert client.AuthorizationV1Api().create_self_subject_access_review(body).status.allowed
    core.create_namespaced_service_account(NAMESPACE, client.V1ServiceAccount(metadata=client.V1ObjectMeta(name="robot")))
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, request).status.token
    review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
    status = client.AuthenticationV1Api().create_token_review(review).status
    assert status.authenticated and status.user.username == f"system:serviceaccount:{NAMESPACE}:robot", status
    ok("reviews and tokens")


def the_end():
    core.delete_namespace(NAMESPACE)

    def is_gone():
        try:
            core.read_namespace(NAMESPACE)
            return False
        except ApiException as error:
            return error.status == 404

    eventually("the namespace goes with all that is in it", is_gone)
    assert client.VersionApi().get_code().major == "1"
    ok("a namespace goes with all that is in it")


for check in [objects, workloads, watching, custom_resources, access, the_end]:
    check()
