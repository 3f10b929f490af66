//! Volumes on a real file system.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::runtime::Opened;
use crate::sources::Fetched;

struct World {
    dir: TempDir,
    sources: Fetched,
}

impl World {
    fn new() -> Self {
        let mut world = Self { dir: tempfile::tempdir().unwrap(), sources: Fetched::default() };
        world.config_map(json!({ "train.py": "print(1)", "lr": "0.1" }));
        let secret = json!({ "metadata": {}, "data": { "token": "c2VjcmV0" } });
        let claim = json!({ "metadata": {} });
        world.sources.secrets.insert(key("sec"), serde_json::from_value(secret).unwrap());
        world.sources.tokens.insert("vault".to_owned(), "for-vault".to_owned());
        world.sources.claims.insert(key("data"), serde_json::from_value(claim).unwrap());
        world
    }

    fn config_map(&mut self, data: Value) {
        let map = json!({ "metadata": {}, "data": data, "binaryData": { "blob": "/w==" } });
        self.sources.config_maps.insert(key("map"), serde_json::from_value(map).unwrap());
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn prepare(&self, volume: &Value) -> Result<Prepared, String> {
        self.prepare_for(volume, None)
    }

    fn prepare_for(&self, volume: &Value, owner: Option<Owner<'_>>) -> Result<Prepared, String> {
        let mut volume = volume.clone();
        volume["name"] = json!("v");
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "namespace": "ns", "name": "p", "labels": { "a": "b" } },
            "spec": {
                "containers": [{ "name": "c", "resources": { "limits": { "cpu": "2" } } }],
                "volumes": [volume],
            },
        }))
        .unwrap();
        let (root, claims) = (self.path("volumes"), self.path("claims"));
        let place = Place { root: &root, claims: &claims, owner };
        let made = prepare(&pod, place, &self.sources, &NodeFacts::default());
        made.map(|mut volumes| volumes.remove("v").unwrap()).map_err(|error| error.message)
    }

    fn read(&self, volume: &Value) -> Vec<String> {
        let prepared = self.prepare(volume).unwrap();
        assert!(prepared.read_only);
        let mut names: Vec<String> =
            list(&prepared.path).into_iter().filter(|n| !n.starts_with("..")).collect();
        names.sort();
        names
    }
}

fn key(name: &str) -> (String, String) {
    ("ns".to_owned(), name.to_owned())
}

fn list(path: &Path) -> Vec<String> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_empty_dir_is_for_everyone_and_keeps_what_is_in_it() {
    let world = World::new();
    let first = world.prepare(&json!({ "emptyDir": {} })).unwrap();
    assert!(!first.read_only);
    assert_eq!(mode(&first.path), 0o777);
    fs::write(first.path.join("checkpoint"), "7").unwrap();
    let again = world.prepare(&json!({ "emptyDir": {} })).unwrap();
    assert_eq!(fs::read_to_string(again.path.join("checkpoint")).unwrap(), "7");
}

#[test]
fn a_config_map_becomes_files() {
    let world = World::new();
    assert_eq!(world.read(&json!({ "configMap": { "name": "map" } })), ["blob", "lr", "train.py"]);
    let v = world.path("volumes/v");
    assert_eq!(fs::read(v.join("blob")).unwrap(), [255]);
    assert_eq!(mode(&v.join("lr")), 0o644);
    let items =
        json!([{ "key": "train.py", "path": "src/main.py", "mode": 0o755 }, { "key": "lr", "path": "lr" }]);
    let volume = json!({ "configMap": { "name": "map", "items": items, "defaultMode": 0o400 } });
    assert_eq!(world.read(&volume), ["lr", "src"]);
    assert_eq!(fs::read_to_string(v.join("src/main.py")).unwrap(), "print(1)");
    assert_eq!((mode(&v.join("src/main.py")), mode(&v.join("lr"))), (0o755, 0o400));
}

#[test]
fn files_are_replaced_all_at_once_and_only_when_they_changed() {
    let mut world = World::new();
    let volume = json!({ "configMap": { "name": "map" } });
    world.read(&volume);
    let data = world.path("volumes/v/..data");
    let first = fs::read_link(&data).unwrap();
    world.read(&volume);
    assert_eq!(fs::read_link(&data).unwrap(), first);
    // What a control plane that died in between left behind does not matter.
    fs::create_dir_all(world.path("volumes/v/..1/junk")).unwrap();
    symlink("..1", world.path("volumes/v/..data.next")).unwrap();
    world.config_map(json!({ "lr": "0.2" }));
    assert_eq!(world.read(&volume), ["blob", "lr"]);
    assert_ne!(fs::read_link(&data).unwrap(), first);
    assert_eq!(fs::read_to_string(world.path("volumes/v/lr")).unwrap(), "0.2");
    let inner = list(&world.path("volumes/v")).into_iter().filter(|name| name.starts_with("..")).count();
    assert_eq!(inner, 2, "the link and the one version it leads to");
}

#[test]
fn secrets_and_the_pods_own_facts() {
    let world = World::new();
    assert_eq!(world.read(&json!({ "secret": { "secretName": "sec", "defaultMode": 0o400 } })), ["token"]);
    assert_eq!(mode(&world.path("volumes/v/token")), 0o400);
    let items = json!([
        { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
        { "path": "cpu", "resourceFieldRef": { "containerName": "c", "resource": "limits.cpu" } },
    ]);
    assert_eq!(world.read(&json!({ "downwardAPI": { "items": items } })), ["cpu", "labels"]);
    assert_eq!(fs::read_to_string(world.path("volumes/v/labels")).unwrap(), "a=\"b\"");
    assert_eq!(fs::read_to_string(world.path("volumes/v/cpu")).unwrap(), "2");
    let sources = json!([
        { "configMap": { "name": "map", "items": [{ "key": "lr", "path": "lr" }] } },
        { "secret": { "name": "sec" } },
        { "downwardAPI": { "items": [{ "path": "in/name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
    ]);
    assert_eq!(world.read(&json!({ "projected": { "sources": sources } })), ["in", "lr", "token"]);
    let token = json!([{ "serviceAccountToken": { "path": "vault", "audience": "vault" } }]);
    assert_eq!(world.read(&json!({ "projected": { "sources": token } })), ["vault"]);
    assert_eq!(fs::read_to_string(world.path("volumes/v/vault")).unwrap(), "for-vault");
}

#[test]
fn what_is_missing_is_named_and_what_is_optional_is_empty() {
    let world = World::new();
    let cases = [
        (json!({ "configMap": { "name": "no" } }), "volume \"v\": configmap \"no\" not found"),
        (json!({ "secret": { "secretName": "no" } }), "volume \"v\": secret \"no\" not found"),
        (
            json!({ "configMap": { "name": "map", "items": [{ "key": "no", "path": "x" }] } }),
            "volume \"v\": configmap \"map\" has no key \"no\"",
        ),
        (
            json!({ "persistentVolumeClaim": { "claimName": "no" } }),
            "volume \"v\": persistentvolumeclaim \"no\" not found",
        ),
        (
            json!({ "nfs": { "server": "s", "path": "/" } }),
            "volume \"v\": nfs volumes cannot be mounted on one machine; use hostPath or a claim",
        ),
        (
            json!({ "configMap": { "name": "map", "items": [{ "key": "lr", "path": "../../x" }] } }),
            "volume \"v\": \"../../x\" is no path inside a volume",
        ),
    ];
    for (volume, expected) in cases {
        assert_eq!(world.prepare(&volume), Err(expected.to_owned()), "{volume}");
    }
    let token = json!({ "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } });
    let expected = "volume \"v\": there is no token for serviceaccount \"default\"";
    assert_eq!(world.prepare(&token), Err(expected.to_owned()));
    let bundle =
        json!({ "projected": { "sources": [{ "clusterTrustBundle": { "path": "t", "name": "x" } }] } });
    assert!(world.prepare(&bundle).unwrap_err().contains("projected clusterTrustBundle is not supported"));
    assert_eq!(world.read(&json!({ "configMap": { "name": "no", "optional": true } })), Vec::<String>::new());
    let escape = json!({ "configMap": { "name": "map", "items": [{ "key": "lr", "path": "..data/x" }] } });
    assert!(world.prepare(&escape).is_err());
}

#[test]
fn a_claim_is_a_directory_that_stays() {
    let world = World::new();
    let claim = json!({ "persistentVolumeClaim": { "claimName": "data", "readOnly": true } });
    let prepared = world.prepare(&claim).unwrap();
    assert_eq!(
        prepared,
        Prepared { path: world.path("claims/ns/data"), read_only: true, origin: Origin::Directory }
    );
    assert!(prepared.path.is_dir());
}

#[test]
fn host_paths_are_what_they_say() {
    let world = World::new();
    let check = |path: &str, kind: &str| {
        let path = world.path(path);
        let made = world.prepare(&json!({ "hostPath": { "path": path, "type": kind } }));
        made.map(|prepared| prepared.path.is_dir())
            .map_err(|message| message.replace(path.to_str().unwrap(), "X"))
    };
    fs::write(world.path("file"), "").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.path("socket")).unwrap();
    for (path, kind, is_dir) in [
        ("new/dir", "DirectoryOrCreate", true),
        ("new/dir", "Directory", true),
        ("plain", "", true),
        ("file", "", false),
        ("file", "File", false),
        ("made", "FileOrCreate", false),
        ("socket", "Socket", false),
    ] {
        assert_eq!(check(path, kind), Ok(is_dir), "{path} {kind}");
    }
    let failed = "volume \"v\": hostPath type check failed: X";
    assert_eq!(check("absent", "Directory"), Err(format!("{failed} does not exist")));
    assert_eq!(check("file", "Directory"), Err(format!("{failed} is not a directory")));
    assert_eq!(check("new", "File"), Err(format!("{failed} is not a file")));
    assert_eq!(check("file", "BlockDevice"), Err(format!("{failed} is not a block device")));
    assert!(check("file", "Odd").unwrap_err().contains("\"Odd\" is not known"));
    let relative = world.prepare(&json!({ "hostPath": { "path": "data" } }));
    assert_eq!(relative, Err("volume \"v\": hostPath \"data\" must begin with /".into()));
}

fn mount(volume: &Prepared, mounts: Value) -> Result<Vec<Mount>, String> {
    let container = serde_json::from_value(json!({ "name": "c", "volumeMounts": mounts })).unwrap();
    let volumes = BTreeMap::from([("v".to_owned(), volume.clone())]);
    let env = BTreeMap::from([("RANK".to_owned(), "3".to_owned())]);
    super::mounts(&container, &volumes, &env, false).map_err(|error| error.message)
}

#[test]
fn mounts_are_ordered_from_the_root_down() {
    let world = World::new();
    let volume = world.prepare(&json!({ "emptyDir": {} })).unwrap();
    let list = mount(
        &volume,
        json!([
            { "name": "v", "mountPath": "/data/inner", "subPath": "a/b" },
            { "name": "v", "mountPath": "/data", "readOnly": true },
            { "name": "v", "mountPath": "/out", "subPathExpr": "rank-$(RANK)" },
        ]),
    )
    .unwrap();
    let root = fs::canonicalize(&volume.path).unwrap();
    let seen: Vec<(String, PathBuf, bool)> =
        list.into_iter().map(|m| (m.target.display().to_string(), m.source, m.read_only)).collect();
    let expected = [
        ("/data".to_owned(), volume.path, true),
        ("/out".to_owned(), root.join("rank-3"), false),
        ("/data/inner".to_owned(), root.join("a/b"), false),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn no_mount_leads_out_of_its_volume() {
    let world = World::new();
    let volume = world.prepare(&json!({ "emptyDir": {} })).unwrap();
    symlink("/etc", volume.path.join("out")).unwrap();
    symlink("inner", volume.path.join("in")).unwrap();
    fs::create_dir(volume.path.join("inner")).unwrap();
    let sub = |path: &str| mount(&volume, json!([{ "name": "v", "mountPath": "/x", "subPath": path }]));
    for path in ["../other", "a/../../b", "/etc", "out", "out/new"] {
        let message = sub(path).unwrap_err();
        assert!(message.contains("must be relative") || message.contains("leads out"), "{message}");
    }
    assert!(!Path::new("/etc/new").exists());
    assert!(sub("in").unwrap()[0].source.ends_with("inner"));
    let read_only = Prepared { read_only: true, ..volume.clone() };
    let absent = mount(&read_only, json!([{ "name": "v", "mountPath": "/x", "subPath": "absent" }]));
    assert!(absent.unwrap_err().contains("does not exist in the volume"));
}

#[test]
fn mounts_that_make_no_sense_are_told() {
    let world = World::new();
    let volume = world.prepare(&json!({ "emptyDir": {} })).unwrap();
    let cases = [
        (json!([{ "name": "w", "mountPath": "/x" }]), "mount of \"w\": the pod has no volume of that name"),
        (json!([{ "name": "v", "mountPath": "x" }]), "mountPath \"x\" must begin with /"),
        (json!([{ "name": "v", "mountPath": "/" }]), "mountPath \"/\" is the root of the container"),
        (json!([{ "name": "v", "mountPath": "//." }]), "mountPath \"//.\" is the root of the container"),
        (
            json!([{ "name": "v", "mountPath": "/x" }, { "name": "v", "mountPath": "/x" }]),
            "mountPath \"/x\" is used twice",
        ),
        (
            json!([{ "name": "v", "mountPath": "/x", "subPathExpr": "$(NO)" }]),
            "subPathExpr \"$(NO)\": NO is not set",
        ),
    ];
    for (mounts, expected) in cases {
        let message = mount(&volume, mounts).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
    // One file of a ConfigMap at a place of its own, as many manifests have it.
    let files = world.prepare(&json!({ "configMap": { "name": "map" } })).unwrap();
    let list =
        mount(&files, json!([{ "name": "v", "mountPath": "/opt/train.py", "subPath": "train.py" }])).unwrap();
    assert_eq!(fs::read_to_string(&list[0].source).unwrap(), "print(1)");
    assert!(list[0].read_only);
}

#[test]
fn what_others_can_change_is_left_for_the_shim_to_open() {
    let world = World::new();
    let closed = world.path("closed");
    // As root for another user, as anybody else for oneself.
    let own = fs::metadata("/proc/self").unwrap().uid();
    let user = if own == 0 { 12_345 } else { own };
    let made = |volume: Value| world.prepare_for(&volume, Some(Owner { user, closed: &closed }));
    let sub = |volume: &Prepared, path: &str| {
        let container =
            json!({ "name": "c", "volumeMounts": [{ "name": "v", "mountPath": "/x", "subPath": path }] });
        let volumes = BTreeMap::from([("v".to_owned(), volume.clone())]);
        let list =
            super::mounts(&serde_json::from_value(container).unwrap(), &volumes, &BTreeMap::new(), true);
        list.map(|mut list| list.remove(0)).map_err(|error| error.message)
    };
    let files = made(json!({ "secret": { "secretName": "sec", "defaultMode": 0o400 } })).unwrap();
    let file = fs::metadata(files.path.join("token")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (user, user, 0o400));
    assert_eq!(fs::metadata(&files.path).unwrap().uid(), own, "nobody else changes what is in it");
    assert_eq!(sub(&files, "token").unwrap().opened, None);

    let empty = made(json!({ "emptyDir": {} })).unwrap();
    assert_eq!((fs::metadata(&empty.path).unwrap().uid(), mode(&empty.path)), (user, 0o700));
    let mount = sub(&empty, "a/./b").unwrap();
    let opened = Opened { host: None, inside: "a/b".into(), create: true };
    assert_eq!((mount.source, mount.opened), (empty.path.clone(), Some(opened)));
    assert!(!empty.path.join("a").exists(), "the shim makes it, as that user");
    assert!(sub(&empty, "../b").unwrap_err().contains("must be relative"));

    let host = |path: &str| made(json!({ "hostPath": { "path": path, "type": "DirectoryOrCreate" } }));
    let beside = world.path("closed-not");
    let found = host(&beside.to_string_lossy()).unwrap();
    assert!(!beside.exists());
    let opened = Opened { host: Some("DirectoryOrCreate".into()), inside: PathBuf::new(), create: true };
    assert_eq!(sub(&found, "").unwrap().opened, Some(opened));
    for path in ["closed", "closed/pki", "other/../closed"] {
        let why = host(&world.path(path).to_string_lossy()).unwrap_err();
        assert!(why.contains("data directory") || why.contains("without .."), "{why}");
    }
}
