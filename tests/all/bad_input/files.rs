//! Files that cannot be opened, or cannot be written.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use apex_core::entry::SaveCause;
use apex_core::ids::{AttachmentId, Shard};
use apex_tests::harness::home::{Patience, text};
use apex_tests::harness::pty::Button;
use apex_tests::harness::{Home, Peer, Pty};

pub(super) const PUT: &str = "\x13";
pub(super) const TO_END: &str = "\x1b[1;5F";

/// Waits until the `+Errors` of the user's directory says something.
#[track_caller]
pub(super) fn wait_errors(peer: &mut Peer, home: &Home, words: &[&str]) {
    let errors = home.files().join("+Errors");
    peer.wait_buffer(&errors, |buffer| {
        let text = buffer.text().to_string();
        words.iter().all(|words| text.contains(words))
    });
}

pub(super) fn open(home: &Home, path: &Path) -> (Pty, Peer) {
    let pty = Pty::apex(home, &[text(path)]);
    pty.wait_for(&format!("{} Del", text(path)));
    let mut peer = Peer::follow(home);
    peer.wait_buffer(path, |_| true);
    (pty, peer)
}

pub(super) fn type_at_end(pty: &mut Pty, peer: &mut Peer, path: &Path, typed: &str) {
    pty.keys(TO_END);
    pty.keys(typed);
    peer.wait_buffer(path, |buffer| buffer.text().to_string().ends_with(typed));
}

#[test]
fn a_file_with_any_bytes_is_shown_edited_and_put_back_byte_for_byte() {
    let home = Home::new();
    let mut bytes: Vec<u8> = (0..=255)
        .rev()
        .chain(0..=255)
        .cycle()
        .take(100_000)
        .collect();
    let path = home.file("binary", &bytes);
    let (mut pty, mut peer) = open(&home, &path);
    type_at_end(&mut pty, &mut peer, &path, "end");
    pty.keys(PUT);
    peer.wait_buffer(&path, |b| {
        b.saved().is_some_and(|saved| saved.cause == SaveCause::Put)
    });
    bytes.extend(b"end");
    assert!(fs::read(&path).unwrap() == bytes, "the bytes changed");
}

#[test]
fn a_directory_opens_as_a_listing_and_is_not_put() {
    let home = Home::new();
    home.file("a.txt", b"");
    let pty = Pty::apex(&home, &[text(&home.files())]);
    pty.wait_for(&format!("{}/ Del", text(&home.files())));
    let (x, y) = pty.wait_for("a.txt");
    let mut pty = pty;
    pty.click(Button::B1, (x, y));
    pty.keys(PUT);
    pty.wait_for("only a file is put");
}

#[test]
fn a_missing_file_opens_empty_says_so_and_is_made_by_put() {
    let home = Home::new();
    let path = home.files().join("new.txt");
    let pty = Pty::apex(&home, &[text(&path)]);
    pty.wait_for("a new file");
    let mut pty = pty;
    let mut peer = Peer::follow(&home);
    assert!(!path.exists());
    type_at_end(&mut pty, &mut peer, &path, "one");
    pty.keys(PUT);
    peer.wait_buffer(&path, |buffer| buffer.saved().is_some());
    assert_eq!(fs::read(&path).unwrap(), b"one");
}

#[test]
fn a_file_in_a_missing_directory_is_refused_by_put_and_stays_in_the_window() {
    let home = Home::new();
    let path = home.files().join("missing/new.txt");
    let (mut pty, mut peer) = open(&home, &path);
    type_at_end(&mut pty, &mut peer, &path, "one");
    pty.keys(PUT);
    let errors = home.files().join("missing/+Errors");
    peer.wait_buffer(&errors, |buffer| {
        buffer.text().to_string().contains("missing/new.txt")
    });
    let (_, buffer) = peer.buffer(&path).unwrap();
    assert!(buffer.is_modified() && *buffer.text() == "one".into());
}

#[test]
fn what_is_neither_file_nor_directory_is_refused_by_name() {
    let home = Home::new();
    let path = home.files().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let ended = home.run(&["open", "fifo"]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("fifo"), "{}", ended.stderr);
    home.ok(&["hash"]);
}

#[test]
fn a_put_over_a_file_that_changed_is_refused_and_put_with_a_bang_writes_over_it() {
    let home = Home::new();
    let path = home.file("a.txt", b"one\n");
    let (mut pty, mut peer) = open(&home, &path);
    type_at_end(&mut pty, &mut peer, &path, "mine");
    fs::write(&path, b"theirs\n").unwrap();
    pty.keys(PUT);
    wait_errors(&mut peer, &home, &["a.txt", "changed", "Put!"]);
    assert_eq!(fs::read(&path).unwrap(), b"theirs\n");
    assert!(peer.buffer(&path).unwrap().1.is_modified());
    // What +Errors says to execute is executed there where it stands: in the window's tag, which is
    // where it stays once the new window has its place.
    pty.wait_for("+Errors Del");
    let (x, y) = pty.wait_for(&format!("{} Del", text(&path)));
    let end = pty.wait("the tag's end", |screen| {
        u16::try_from(screen.row(y.into()).chars().count()).ok()
    });
    assert!(end > x);
    pty.click(Button::B1, (end, y));
    pty.keys(" Put!");
    let at = pty.wait("the word Put! in the tag", |screen| {
        let row = screen.row(y.into());
        let at = row.find("Put!")?;
        u16::try_from(row[..at].chars().count() + 1).ok()
    });
    pty.click(Button::B2, (at, y));
    peer.wait_buffer(&path, |b| {
        b.saved().is_some_and(|saved| saved.cause == SaveCause::Put)
    });
    assert_eq!(fs::read(&path).unwrap(), b"one\nmine");
}

/// A small disk of its own; unmounted when dropped.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(path: &Path, options: &str) -> Option<Self> {
        fs::create_dir(path).unwrap();
        let data = std::ffi::CString::new(options).unwrap();
        rustix::mount::mount(
            "tmpfs",
            path,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            &*data,
        )
        .ok()
        .map(|()| Self(path.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).ok();
    }
}

#[test]
fn a_full_disk_refuses_the_put_keeps_the_file_and_the_text() {
    let home = Home::new();
    let place = home.files().join("disk");
    let Some(_disk) = Disk::mount(&place, "size=64k") else {
        // Only root mounts; the limit on file sizes shows the same way out.
        return limited(&home);
    };
    let path = place.join("a.txt");
    fs::write(&path, b"one\n".repeat(2000)).unwrap();
    let mut filler = File::create(place.join("filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    let before = fs::read(&path).unwrap();
    let (mut pty, mut peer) = open(&home, &path);
    type_at_end(&mut pty, &mut peer, &path, "more");
    pty.keys(PUT);
    peer.wait_buffer(&place.join("+Errors"), |buffer| {
        let text = buffer.text().to_string();
        text.contains("a.txt") && text.contains("no space left")
    });
    check_kept(&peer, &path, &before);
    // With room again the same Put works.
    drop(filler);
    fs::remove_file(place.join("filler")).unwrap();
    pty.click(Button::B1, pty.wait_for("more"));
    pty.keys(PUT);
    peer.wait_buffer(&path, |b| {
        b.saved().is_some_and(|saved| saved.cause == SaveCause::Put)
    });
    assert_eq!(fs::read(&path).unwrap(), [&before[..], b"more"].concat());
}

/// The same with a daemon that may not write files as long as this one.
fn limited(home: &Home) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let path = home.file("a.txt", &b"one\n".repeat(20_000));
    let before = fs::read(&path).unwrap();
    let old = getrlimit(Resource::Fsize);
    setrlimit(
        Resource::Fsize,
        Rlimit {
            current: Some(64 << 10),
            maximum: old.maximum,
        },
    )
    .unwrap();
    let daemon = home.daemon();
    setrlimit(Resource::Fsize, old).unwrap();
    let (mut pty, mut peer) = open(home, &path);
    type_at_end(&mut pty, &mut peer, &path, "more");
    pty.keys(PUT);
    wait_errors(&mut peer, home, &["a.txt", "too large"]);
    check_kept(&peer, &path, &before);
    drop(daemon);
}

pub(super) fn check_kept(peer: &Peer, path: &Path, before: &[u8]) {
    assert!(fs::read(path).unwrap() == before, "the file changed");
    let (_, buffer) = peer.buffer(path).unwrap();
    assert!(buffer.is_modified() && buffer.text().to_string().ends_with("more"));
    let names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "a.txt" && name != "filler")
        .collect();
    assert_eq!(names, Vec::<String>::new(), "nothing half-written is left");
}

#[test]
fn a_file_that_may_not_be_written_is_refused_with_the_reason() {
    // Root may write everything but a disk that is mounted so.
    let home = Home::new();
    let place = home.files().join("disk");
    let Some(disk) = Disk::mount(&place, "size=1m") else {
        let path = home.file("a.txt", b"one\n");
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        return read_only(&home, &path);
    };
    let path = place.join("a.txt");
    fs::write(&path, b"one\n").unwrap();
    let read_only_again = rustix::mount::MountFlags::RDONLY;
    rustix::mount::mount_remount(&disk.0, read_only_again, c"size=1m").unwrap();
    read_only(&home, &path);
}

fn read_only(home: &Home, path: &Path) {
    let (mut pty, mut peer) = open(home, path);
    type_at_end(&mut pty, &mut peer, path, "more");
    pty.keys(PUT);
    let errors = path.parent().unwrap().join("+Errors");
    peer.wait_buffer(&errors, |buffer| {
        buffer.text().to_string().contains("a.txt")
    });
    check_kept(&peer, path, b"one\n");
    pty.wait_for("a.txt");
}

#[test]
fn a_large_file_opens_is_edited_and_put_whole() {
    let len: usize = if std::env::var_os("APEX_LONG").is_some() {
        1 << 30
    } else {
        64 << 20
    };
    let home = Home::new();
    let line = b"a line of a large file, as logs and dumps have them: 0123456789\n";
    let path = home.files().join("large.log");
    let mut file = File::create(&path).unwrap();
    let chunk = line.repeat(1 << 14);
    for _ in 0..len / chunk.len() {
        file.write_all(&chunk).unwrap();
    }
    drop(file);
    let before = fs::metadata(&path).unwrap().len();
    // The first screen shows before the rest is read.
    let (mut pty, mut peer) = open(&home, &path);
    pty.wait_for("a line of a large file");
    let buffer = peer.wait_buffer(&path, |buffer| buffer.saved().is_some());
    // A screen that cannot follow gets the whole text once more: its end is the file's only then.
    let (shard, screen) = (Shard::Buffer(buffer), Some(AttachmentId::new(1)));
    peer.wait(|peer| (peer.leader(shard) == screen).then_some(()));
    let state = |arguments: &[&str]| home.json(arguments)["state"].clone();
    let patience = Patience::new();
    while state(&["hash", "--attachment", "1", "--json"]) != state(&["hash", "--json"]) {
        patience.check(|| "the screen has not all of the file".to_owned());
    }
    pty.keys(TO_END);
    pty.keys("end");
    peer.wait_buffer(&path, |buffer| {
        let text = buffer.text();
        let end = text.len();
        text.slice(apex_core::text::Span::new(end - 3, end)) == "end"
    });
    pty.keys(PUT);
    peer.wait_buffer(&path, |b| {
        b.saved().is_some_and(|saved| saved.cause == SaveCause::Put)
    });
    assert_eq!(fs::metadata(&path).unwrap().len(), before + 3);
    let mut rest = fs::read(&path).unwrap();
    assert_eq!(rest.split_off(usize::try_from(before).unwrap()), b"end");
    assert!(
        rest.chunks(line.len()).all(|part| part == line),
        "the file changed"
    );
}
