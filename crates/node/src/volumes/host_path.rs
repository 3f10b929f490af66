//! Files and directories of the machine itself.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::HostPathVolumeSource;

/// The path, after it was made sure that it is what the pod says it is. Where the pod says nothing, a missing directory
/// is made, as container runtimes do.
pub(crate) fn check(source: &HostPathVolumeSource) -> Result<PathBuf, String> {
    let path = PathBuf::from(&source.path);
    if !path.is_absolute() {
        return Err(format!("hostPath {:?} must begin with /", source.path));
    }
    let wanted = source.type_.as_deref().unwrap_or_default();
    // One that cannot be looked at is not taken for one that is not there.
    let there = path.try_exists().and_then(|there| if there { Ok(()) } else { create(&path, wanted) });
    there.map_err(|error| format!("hostPath {}: {error}", source.path))?;
    let refused = |what: &str| Err(format!("hostPath type check failed: {} is not {what}", source.path));
    let Ok(kind) = fs::metadata(&path).map(|meta| meta.file_type()) else {
        return Err(format!("hostPath type check failed: {} does not exist", source.path));
    };
    match wanted {
        "" => Ok(path),
        "Directory" | "DirectoryOrCreate" if !kind.is_dir() => refused("a directory"),
        "File" | "FileOrCreate" if !kind.is_file() => refused("a file"),
        "Socket" if !kind.is_socket() => refused("a socket"),
        "CharDevice" if !kind.is_char_device() => refused("a character device"),
        "BlockDevice" if !kind.is_block_device() => refused("a block device"),
        "Directory" | "DirectoryOrCreate" | "File" | "FileOrCreate" | "Socket" | "CharDevice"
        | "BlockDevice" => Ok(path),
        other => Err(format!("hostPath type {other:?} is not known")),
    }
}

/// The path, if an isolated namespace may ask for it at all. Whether its user may open it is seen when that is tried.
pub(super) fn permitted(source: &HostPathVolumeSource, closed: &Path) -> Result<PathBuf, String> {
    let path = PathBuf::from(&source.path);
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !is_plain {
        return Err(format!("hostPath {:?} must begin with / and be without ..", source.path));
    }
    if path.starts_with(closed) {
        return Err(format!(
            "hostPath {} is refused: it lies in the data directory of trainyard",
            source.path
        ));
    }
    Ok(path)
}

fn create(path: &Path, wanted: &str) -> std::io::Result<()> {
    match wanted {
        "" | "DirectoryOrCreate" => {
            fs::create_dir_all(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        }
        "FileOrCreate" => {
            fs::File::create_new(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o644))
        }
        _ => Ok(()),
    }
}
