//! The generated CRDs, inside the binary. `cargo xtask generate` writes them, a test fails when they are stale.

/// One custom resource definition as YAML.
#[derive(Clone, Copy, Debug)]
pub struct Crd {
    /// `<plural>.<group>`.
    pub name: &'static str,
    /// File under `config/crd/bases/`.
    pub file: &'static str,
    /// The YAML text.
    pub yaml: &'static str,
}

/// Every CRD, sorted by name.
pub const ALL: &[Crd] = &[
    Crd {
        name: "jaxjobs.kubeflow.org",
        file: "kubeflow.org_jaxjobs.yaml",
        yaml: include_str!("../../../config/crd/bases/kubeflow.org_jaxjobs.yaml"),
    },
    Crd {
        name: "mpijobs.kubeflow.org",
        file: "kubeflow.org_mpijobs.yaml",
        yaml: include_str!("../../../config/crd/bases/kubeflow.org_mpijobs.yaml"),
    },
    Crd {
        name: "paddlejobs.kubeflow.org",
        file: "kubeflow.org_paddlejobs.yaml",
        yaml: include_str!("../../../config/crd/bases/kubeflow.org_paddlejobs.yaml"),
    },
    Crd {
        name: "pytorchjobs.kubeflow.org",
        file: "kubeflow.org_pytorchjobs.yaml",
        yaml: include_str!("../../../config/crd/bases/kubeflow.org_pytorchjobs.yaml"),
    },
    Crd {
        name: "tfjobs.kubeflow.org",
        file: "kubeflow.org_tfjobs.yaml",
        yaml: include_str!("../../../config/crd/bases/kubeflow.org_tfjobs.yaml"),
    },
    Crd {
        name: "xgboostjobs.kubeflow.org",
        file: "kubeflow.org_xgboostjobs.yaml",
        yaml: include_str!("../../../config/crd/bases/kubeflow.org_xgboostjobs.yaml"),
    },
];
