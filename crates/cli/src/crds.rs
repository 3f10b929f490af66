//! `trainyard crds`.

use std::process::ExitCode;

use trainyard_api::crds;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    for crd in crds::ALL {
        crate::print("---\n")?;
        crate::print(crd.yaml)?;
    }
    Ok(ExitCode::SUCCESS)
}
