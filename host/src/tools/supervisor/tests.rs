use std::path::Path;

use super::*;

const MANIFEST: &str = "id = \"a.b\"\nversion = \"1\"\nsummary = \"\"\n";

/// Returns a supervisor without sessions, and where compilations report.
fn supervisor(dir: &Path) -> (Supervisor, mpsc::UnboundedReceiver<LoadEnd>) {
    let (loads, load_ends) = mpsc::unbounded_channel();
    let config = ToolConfig {
        plugin_dirs: Vec::new(),
        grants_path: dir.join("grants.toml"),
        cache_dir: dir.join("cache"),
        data_dir: dir.join("data"),
        restart_wait_ms: 1,
    };
    let supervisor = Supervisor {
        loader: Ok(Arc::new(Loader::new(Path::new("/dev/null")).unwrap())),
        config,
        workers: Workers::start().unwrap(),
        loads,
        ends: mpsc::unbounded_channel().0,
        slots: BTreeMap::new(),
        sessions: BTreeMap::new(),
        registry: Registry::default(),
        asked: watch::channel(0).0,
        waiting: Vec::new(),
    };
    (supervisor, load_ends)
}

fn found(path: &Path, bytes: &[u8], sha256: &str) -> Found {
    Found {
        path: path.to_owned(),
        rank: 0,
        contents: Ok(Contents {
            bytes: bytes.into(),
            sha256: sha256.to_owned(),
            manifest: Ok(MANIFEST.to_owned()),
        }),
    }
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_compiles_counts_as_it_lies_there_last() {
    let dir = std::env::temp_dir().join(format!("apex-supervisor-{}", uuid::Uuid::new_v4()));
    let path = dir.join("x.wasm");
    let (mut supervisor, mut load_ends) = supervisor(&dir);
    // Nothing compiles until both are there.
    let permits = supervisor.loader.as_ref().unwrap().permits();
    let count = u32::try_from(permits.available_permits()).unwrap();
    let held = Arc::clone(&permits)
        .acquire_many_owned(count)
        .await
        .unwrap();
    // A core module, then an empty component: the reasons tell them apart.
    supervisor.found(found(&path, b"\0asm\x01\0\0\0", "old"));
    assert!(matches!(
        supervisor.slots[&path].file,
        FileState::Compiling(_)
    ));
    supervisor.found(found(&path, b"\0asm\x0d\0\x01\0", "new"));
    drop(held);
    let mut ends = vec![
        load_ends.recv().await.unwrap(),
        load_ends.recv().await.unwrap(),
    ];
    // The older one last: it must not speak for the newer one.
    ends.sort_by_key(|end| std::cmp::Reverse(end.generation));
    assert_ne!(ends[0].generation, ends[1].generation);
    for end in ends {
        supervisor.loaded(end);
        let info = supervisor.slots[&path].info();
        assert_eq!(
            (info.state.as_str(), info.sha256.as_str()),
            ("invalid", "new")
        );
        assert!(info.note.contains("lifecycle"), "{}", info.note);
    }
    let log = supervisor.slots[&path].log.newest();
    let refusals = log.iter().filter(|line| line.contains("not taken"));
    assert_eq!(refusals.count(), 1, "{log:?}");
}
