//! `trainyard crds`.

use std::process::ExitCode;

use trainyard_api::crds;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    for crd in crds::ALL {
        let definition: serde_json::Value = serde_json::from_str(crd.json)?;
        crate::print("---\n")?;
        crate::print(&serde_saphyr::to_string(&definition)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
