//! What this machine has to give.

mod gpus;
mod machine;

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::demand::{GPU, PODS};
use crate::quantity::{format_bytes, format_millis, parse_millis, parse_units, quantity};

/// More than a kubelet's 110: processes are cheaper than containers, and replicas of small jobs are many.
const DEFAULT_PODS: u32 = 250;

/// What this machine has to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// How many pods run at the same time.
    pub pods: u32,
    /// By index.
    pub gpus: Vec<Gpu>,
    /// The machine has GPUs, offered or not: then a container that was given none is told so.
    pub has_gpus: bool,
    /// Bytes of disk for the pods' own files. Absent means that nobody counts them.
    pub storage: Option<u64>,
    /// The machine's name.
    pub host_name: String,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// What `CUDA_VISIBLE_DEVICES` is given: the UUID. Indices change with the order a program asks for; this does not.
    pub id: String,
    /// As the driver numbers it.
    pub index: u32,
    /// The model.
    pub name: String,
    /// Bytes of its memory.
    pub memory: Option<u64>,
}

impl Inventory {
    /// A machine with these processors and this memory, and nothing else.
    pub fn new(host_name: impl Into<String>, cpu_millis: u64, memory: u64) -> Self {
        let host_name = host_name.into();
        Self {
            cpu_millis,
            memory,
            pods: DEFAULT_PODS,
            gpus: Vec::new(),
            has_gpus: false,
            storage: None,
            host_name,
        }
    }

    /// This machine, as far as this process may use it: cgroup limits and the caller's `CUDA_VISIBLE_DEVICES` count.
    pub fn of_this_machine() -> Self {
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        let mut inventory = Self::new(machine::host_name(), machine::cpu_millis(), machine::memory(&read));
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let all = gpus::of_this_machine();
        inventory.has_gpus = !all.is_empty();
        inventory.gpus = gpus::visible(all, visible.as_deref());
        inventory
    }

    /// For tests and for trying things out: GPUs that do not exist.
    #[must_use]
    pub fn with_fake_gpus(mut self, count: u32) -> Self {
        let gpu = |index| Gpu { id: format!("GPU-fake-{index}"), index, name: "fake".into(), memory: None };
        self.gpus = (0..count).map(gpu).collect();
        self.has_gpus = count > 0;
        self
    }

    /// How many pods run at the same time.
    #[must_use]
    pub fn with_pods(mut self, pods: u32) -> Self {
        self.pods = pods;
        self
    }

    /// Counts the disk that `path` lies on. If nobody can tell its size, it is not counted.
    #[must_use]
    pub fn with_storage_of(mut self, path: &Path) -> Self {
        self.storage = machine::storage(path);
        self
    }

    /// Less than the machine has, by the words of command line options: quantities, and GPUs by index or UUID
    /// (`0,2`, `GPU-8f2a…`, `all`, `none`). Processors may be more than there are, for they are shared by time;
    /// memory may not.
    pub fn restricted(
        mut self,
        cpus: Option<&str>,
        memory: Option<&str>,
        gpus: Option<&str>,
    ) -> Result<Self, String> {
        if let Some(text) = cpus {
            let millis = parse_millis(text).map_err(|error| error.to_string())?;
            let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0);
            self.cpu_millis = millis.ok_or_else(|| format!("{text} cpu: must be more than 0"))?;
        }
        if let Some(text) = memory {
            let bytes = parse_units(text).map_err(|error| error.to_string())?;
            let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
            let bytes = bytes.ok_or_else(|| format!("{text} memory: must be more than 0"))?;
            if bytes > self.memory {
                let has = format_bytes(self.memory.into());
                return Err(format!("{text} memory: this machine has {has}"));
            }
            self.memory = bytes;
        }
        if let Some(text) = gpus {
            self.gpus = gpus::select(&self.gpus, text)?;
        }
        Ok(self)
    }

    /// For the Node object's `capacity` and `allocatable`.
    pub fn capacity(&self) -> BTreeMap<String, Quantity> {
        let mut capacity = BTreeMap::from([
            ("cpu".to_owned(), quantity(format_millis(self.cpu_millis.into()))),
            ("memory".to_owned(), quantity(format_bytes(self.memory.into()))),
            (PODS.to_owned(), quantity(self.pods.to_string())),
        ]);
        if let Some(bytes) = self.storage {
            capacity.insert("ephemeral-storage".into(), quantity(format_bytes(bytes.into())));
        }
        if !self.gpus.is_empty() {
            capacity.insert(GPU.into(), quantity(self.gpus.len().to_string()));
        }
        capacity
    }

    /// How much of a resource there is, in thousandths. `None` is a resource that nobody counts here.
    pub fn millis(&self, resource: &str) -> Option<i128> {
        let units = |n: u64| i128::from(n).saturating_mul(1000);
        Some(match resource {
            "cpu" => self.cpu_millis.into(),
            "memory" => units(self.memory),
            "ephemeral-storage" => units(self.storage?),
            PODS => units(self.pods.into()),
            GPU => units(self.gpus.len().try_into().unwrap_or(u64::MAX)),
            _ => 0,
        })
    }

    /// The labels that every node has, for `nodeSelector`.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let labels = [
            ("kubernetes.io/hostname", self.host_name.as_str()),
            ("kubernetes.io/os", std::env::consts::OS),
            ("kubernetes.io/arch", machine::arch()),
        ];
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Inventory {
        Inventory::new("here", 4000, 8 << 30).with_fake_gpus(3)
    }

    #[test]
    fn this_machine_has_something() {
        let here = Inventory::of_this_machine().with_storage_of(Path::new("/"));
        assert!(here.cpu_millis >= 1000 && here.memory > 1 << 20, "{here:?}");
        assert!(!here.host_name.is_empty() && here.storage.is_some(), "{here:?}");
    }

    #[test]
    fn capacity_is_what_a_node_says() {
        let text = |inventory: Inventory| -> Vec<String> {
            inventory.capacity().into_iter().map(|(name, q)| format!("{name}={}", q.0)).collect()
        };
        assert_eq!(text(machine()), ["cpu=4", "memory=8Gi", "nvidia.com/gpu=3", "pods=250"]);
        assert_eq!(
            text(Inventory::new("a", 1500, 1000).with_pods(2)),
            ["cpu=1500m", "memory=1000", "pods=2"]
        );
    }

    #[test]
    fn options_take_away() {
        let some = machine().restricted(Some("2500m"), Some("1Gi"), Some("2,0")).unwrap();
        assert_eq!((some.cpu_millis, some.memory), (2500, 1 << 30));
        let ids: Vec<&str> = some.gpus.iter().map(|gpu| gpu.id.as_str()).collect();
        assert_eq!(ids, ["GPU-fake-0", "GPU-fake-2"]);
        assert_eq!(machine().restricted(None, None, None), Ok(machine()));
        assert_eq!(machine().restricted(Some("64"), None, Some("none")).unwrap().gpus, []);
    }

    #[test]
    fn options_that_cannot_be_are_told() {
        let message = |cpus, memory, gpus| machine().restricted(cpus, memory, gpus).unwrap_err();
        assert!(message(Some("many"), None, None).contains("\"many\" is not a quantity"));
        assert_eq!(message(Some("0"), None, None), "0 cpu: must be more than 0");
        assert_eq!(message(None, Some("16Gi"), None), "16Gi memory: this machine has 8Gi");
        assert_eq!(
            message(None, None, Some("7")),
            "no GPU 7 here; there are 0 (fake, GPU-fake-0), 1 (fake, GPU-fake-1), 2 (fake, GPU-fake-2)"
        );
    }
}
