//! `trainyard explain`.

use serde_json::Value;

use crate::trainyard;

const GOOD: &str = "
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: { name: good }
spec: { tfReplicaSpecs: { Worker: { replicas: 2, template: { spec: { containers: [{ name: tensorflow, image: i }] } } } } }
";

fn errors(manifest: &str) -> Vec<String> {
    let said = trainyard(&["explain", "-"], manifest);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert_eq!(said.out, "", "nothing is shown of a job with errors");
    said.err.lines().map(str::to_owned).collect()
}

#[test]
fn shows_every_pod_and_service_as_yaml() {
    let said =
        trainyard(&["explain", "examples/pytorch/pytorchjob.yaml", "examples/tensorflow/tfjob.yaml"], "");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&said.out).unwrap();
    let names: Vec<String> = objects
        .iter()
        .filter(|object| object.get("kind").and_then(Value::as_str) == Some("Pod"))
        .filter_map(|pod| pod.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned))
        .collect();
    assert_eq!(
        names,
        [
            "digits-master-0",
            "digits-worker-0",
            "digits-worker-1",
            "regression-chief-0",
            "regression-ps-0",
            "regression-worker-0",
            "regression-worker-1"
        ]
    );
    assert!(said.out.contains("MASTER_ADDR") && said.out.contains("TF_CONFIG"), "{}", said.out);
}

/// As kubectl reads them: octal modes, and whole numbers however they are spelt.
#[test]
fn numbers_are_read_as_kubectl_reads_them() {
    let volumes = "volumes: [{ name: v, secret: { secretName: s, defaultMode: 0644 } }], containers:";
    for replicas in ["2", "02", "2.0", "2e0"] {
        let manifest =
            GOOD.replace("replicas: 2", &format!("replicas: {replicas}")).replace("containers:", volumes);
        let said = trainyard(&["explain", "-"], &manifest);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{replicas}");
        assert!(said.out.starts_with("# -: TFJob default/good: 2 pod(s)"), "{replicas}: {}", said.out);
        assert!(said.out.contains("defaultMode: 420\n"), "{}", said.out);
    }
}

#[test]
fn lists_are_taken_apart() {
    let job = GOOD.trim().replace('\n', "\n  ");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {job}\n- {}", job.replace("good", "other"));
    let said = trainyard(&["explain", "-"], &list);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    for head in ["# - (items[0]): TFJob default/good: ", "# - (items[1]): TFJob default/other: "] {
        assert!(said.out.contains(head), "{}", said.out);
    }
    let nothing = trainyard(&["explain", "-"], "apiVersion: v1\nkind: List\nitems: []\n");
    assert!(nothing.code == Some(1) && nothing.err.contains("- holds no document"), "{}", nothing.err);
}

#[test]
fn the_cluster_domain_is_an_option() {
    let said = trainyard(&["explain", "--cluster-domain", "x.y", "-"], GOOD);
    assert!(said.out.contains("good-worker-1.default.svc.x.y:2222"), "{}", said.out);
}

#[test]
fn names_every_error_with_its_field() {
    let manifest =
        GOOD.replace("replicas: 2", "replicas: -2, restartPolicy: Perhaps").replace("image: i", "image: ''");
    let prefix = "trainyard: -: TFJob default/good: spec.tfReplicaSpecs[Worker]";
    assert_eq!(
        errors(&manifest),
        [
            format!("{prefix}.replicas: Invalid value: -2: must be at least 0"),
            format!(
                "{prefix}.restartPolicy: Unsupported value: \"Perhaps\": supported values: \"Always\", \"OnFailure\", \
                 \"Never\", \"ExitCode\""
            ),
            format!("{prefix}.template.spec.containers[0].image: Required value: must be required"),
        ]
    );
}

#[test]
fn finds_misspelt_fields_and_wrong_types() {
    let misspelt = errors(&GOOD.replace("replicas: 2", "replica: 2"));
    assert_eq!(misspelt.len(), 1, "{misspelt:?}");
    assert!(misspelt[0].contains("spec.tfReplicaSpecs.Worker.replica: Unknown field"), "{misspelt:?}");
    let wrong = errors(&GOOD.replace("image: i", "image: i, env: [{ name: A, value: 3 }]"));
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    let path = "spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[0].value";
    assert!(wrong[0].contains(path) && wrong[0].contains("expected a string"), "{wrong:?}");
}

#[test]
fn says_what_is_wrong_with_a_file() {
    let cases = [
        ("", "holds no document"),
        ("# only a comment\n", "holds no document"),
        ("a: [", "is not YAML"),
        ("a: 1\n", "kind: Required value"),
        ("kind: Job\napiVersion: batch/v1\n", "known kinds are JAXJob, "),
        ("kind: TFJob\napiVersion: kubeflow.org/v2\n", "TFJob is kubeflow.org/v1"),
        ("kind: TFJob\napiVersion: kubeflow.org/v1\n", "spec.tfReplicaSpecs: Required value"),
        ("- 1\n", "kind: Required value"),
    ];
    for (text, expected) in cases {
        let said = trainyard(&["explain", "-"], text);
        assert_eq!(said.code, Some(1), "{text:?}");
        assert!(said.err.contains(expected), "{text:?} says {:?}", said.err);
    }
    let said = trainyard(&["explain", "no/such/file.yaml"], "");
    assert!(said.err.contains("cannot read no/such/file.yaml"), "{}", said.err);
}

#[test]
fn one_bad_document_does_not_hide_the_others() {
    let bad = GOOD.replace("name: good", "name: 0bad");
    let said = trainyard(&["explain", "-"], &format!("{bad}---{GOOD}"));
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("- (document 1): TFJob default/0bad: metadata.name"), "{}", said.err);
    assert!(said.out.contains("good-worker-1"), "{}", said.out);
}
