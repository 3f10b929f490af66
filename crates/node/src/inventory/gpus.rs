//! The GPUs of this machine, and choosing among them.

use std::ffi::OsStr;

use nvml_wrapper::Nvml;

use super::Gpu;

/// Where there is no driver there are no GPUs: nothing here is an error. Many machines (and every container) have the
/// driver's library only under its versioned name.
pub(super) fn of_this_machine() -> Vec<Gpu> {
    let versioned = Nvml::builder().lib_path(OsStr::new("libnvidia-ml.so.1")).init();
    let Ok(nvml) = versioned.or_else(|_| Nvml::init()) else {
        return Vec::new();
    };
    let count = nvml.device_count().unwrap_or_default();
    (0..count).filter_map(|index| gpu(&nvml, index)).collect()
}

/// A device that does not say its UUID is broken: no program could be given it.
fn gpu(nvml: &Nvml, index: u32) -> Option<Gpu> {
    let device = nvml.device_by_index(index).ok()?;
    let name = device.name().unwrap_or_else(|_| "GPU".into());
    let memory = device.memory_info().ok().map(|memory| memory.total);
    Some(Gpu { id: device.uuid().ok()?, index, name, memory })
}

/// What the caller's own `CUDA_VISIBLE_DEVICES` leaves, by CUDA's rules: the first entry that names nothing ends the
/// list, and an empty list is none at all. A part of a GPU (`MIG-…`) is passed on as it is: the driver knows it.
pub(super) fn visible(gpus: Vec<Gpu>, setting: Option<&str>) -> Vec<Gpu> {
    let Some(setting) = setting else {
        return gpus;
    };
    let mut list: Vec<Gpu> = Vec::new();
    for entry in setting.split(',').map(str::trim) {
        let found = match find(&gpus, entry) {
            Some(gpu) => gpu.clone(),
            None if entry.starts_with("MIG-") && !gpus.is_empty() => {
                let index = u32::try_from(list.len()).unwrap_or(u32::MAX);
                Gpu { id: entry.to_owned(), index, name: "MIG".into(), memory: None }
            }
            None => break,
        };
        if list.iter().any(|gpu| gpu.id == found.id) {
            break;
        }
        list.push(found);
    }
    list.sort_by_key(|gpu| gpu.index);
    list
}

/// Those named in an option; what does not exist is an error that says what does.
pub(super) fn select(gpus: &[Gpu], setting: &str) -> Result<Vec<Gpu>, String> {
    match setting.trim() {
        "all" => return Ok(gpus.to_vec()),
        "none" | "" => return Ok(Vec::new()),
        _ => {}
    }
    let mut list: Vec<Gpu> = Vec::new();
    for entry in setting.split(',').map(str::trim) {
        let gpu = find(gpus, entry).ok_or_else(|| unknown(gpus, entry))?;
        if !list.contains(gpu) {
            list.push(gpu.clone());
        }
    }
    list.sort_by_key(|gpu| gpu.index);
    Ok(list)
}

/// By index, or by the beginning of the UUID where that is enough to tell.
fn find<'a>(gpus: &'a [Gpu], entry: &str) -> Option<&'a Gpu> {
    if let Ok(index) = entry.parse::<u32>() {
        return gpus.iter().find(|gpu| gpu.index == index);
    }
    let mut found = gpus.iter().filter(|gpu| !entry.is_empty() && gpu.id.starts_with(entry));
    let first = found.next()?;
    (found.next().is_none() || first.id == entry).then_some(first)
}

fn unknown(gpus: &[Gpu], entry: &str) -> String {
    let list: Vec<String> =
        gpus.iter().map(|gpu| format!("{} ({}, {})", gpu.index, gpu.name, gpu.id)).collect();
    let there_are = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    format!("no GPU {entry} here; there are {there_are}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> Vec<Gpu> {
        let gpu = |index| Gpu { id: format!("GPU-{index}a"), index, name: "T4".into(), memory: None };
        (0..4).map(gpu).collect()
    }

    fn indices(gpus: &[Gpu]) -> Vec<u32> {
        gpus.iter().map(|gpu| gpu.index).collect()
    }

    #[test]
    fn the_callers_setting_counts_as_cuda_counts_it() {
        let cases: [(Option<&str>, &[u32]); 9] = [
            (None, &[0, 1, 2, 3]),
            (Some(""), &[]),
            (Some("-1"), &[]),
            (Some("2,0"), &[0, 2]),
            (Some(" 1 , GPU-3"), &[1, 3]),
            (Some("0,9,1"), &[0]),
            (Some("1,1,2"), &[1]),
            (Some("GPU-"), &[]),
            (Some("NoDevFiles"), &[]),
        ];
        for (setting, expected) in cases {
            assert_eq!(indices(&visible(four(), setting)), expected, "{setting:?}");
        }
        assert_eq!(visible(four(), Some("MIG-1,MIG-2")).len(), 2);
        assert_eq!(visible(Vec::new(), Some("MIG-1,0")).len(), 0);
    }

    #[test]
    fn a_selection_is_exact_or_an_error() {
        assert_eq!(indices(&select(&four(), "3, GPU-1a,3").unwrap()), [1, 3]);
        assert_eq!(indices(&select(&four(), "all").unwrap()).len(), 4);
        assert_eq!(select(&four(), "GPU-").unwrap_err().split(';').next(), Some("no GPU GPU- here"));
        assert_eq!(select(&[], "0").unwrap_err(), "no GPU 0 here; there are none");
    }
}
