//! Turns the generated definitions into JSON, which the binary reads in a fraction of the time that YAML takes.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let variable = |name: &str| env::var_os(name).ok_or_else(|| format!("cargo sets {name}"));
    let bases = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../../config/crd/bases");
    let out = PathBuf::from(variable("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", bases.display());
    for entry in fs::read_dir(bases)? {
        let path = entry?.path();
        let definition: serde_json::Value = serde_saphyr::from_str(&fs::read_to_string(&path)?)?;
        let name = path.file_stem().and_then(|name| name.to_str()).ok_or("a file without a name")?;
        fs::write(out.join(format!("{name}.json")), definition.to_string())?;
    }
    Ok(())
}
