//! The generated CRDs, inside the binary. `cargo xtask generate` writes them, a test fails when they are stale, and the
//! build script of this crate makes JSON of them.

/// One custom resource definition.
#[derive(Clone, Copy, Debug)]
pub struct Crd {
    /// `<plural>.<group>`.
    pub name: &'static str,
    /// File under `config/crd/bases/`.
    pub file: &'static str,
    /// What is in it, as JSON.
    pub json: &'static str,
}

macro_rules! crds {
    ($($plural:literal),+) => {
        &[$(Crd {
            name: concat!($plural, ".kubeflow.org"),
            file: concat!("kubeflow.org_", $plural, ".yaml"),
            json: include_str!(concat!(env!("OUT_DIR"), "/kubeflow.org_", $plural, ".json")),
        }),+]
    };
}

/// Every CRD, sorted by name.
pub const ALL: &[Crd] = crds!("jaxjobs", "mpijobs", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs");
