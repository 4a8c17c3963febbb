//! A man in the middle, between a program and the daemon: it reads what passes, and holds back
//! what it is told to, so that "not acknowledged yet" is a state and not a moment.

use std::collections::VecDeque;
use std::fs::DirBuilder;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use apex_core::message::{ClientMessage, ServerMessage};
use apex_core::wire::{Frames, PreambleReader};

use super::PATIENCE;
use super::home::Home;

/// Which way something passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the daemon.
    Up,
    /// From the daemon.
    Down,
}

/// What passed, in order; also what is held back.
#[derive(Debug, Default)]
pub struct Passed {
    /// What the program said.
    pub up: Vec<ClientMessage>,
    /// What the daemon said.
    pub down: Vec<ServerMessage>,
    is_held: [bool; 2],
}

/// Bytes under way, and whether no more come.
type Queue = Arc<(Mutex<(VecDeque<u8>, bool)>, Condvar)>;
type Shared = Arc<(Mutex<Passed>, Condvar)>;

/// The proxy; programs whose `APEX_RUNTIME_DIR` is [`Self::runtime`] speak through it.
#[derive(Debug)]
pub struct Proxy {
    runtime: PathBuf,
    shared: Shared,
}

impl Proxy {
    /// Starts one in front of the user's daemon, which runs already.
    #[must_use]
    pub fn new(home: &Home) -> Self {
        let runtime = home.path().join("proxy");
        DirBuilder::new().mode(0o700).create(&runtime).unwrap();
        let listener = UnixListener::bind(runtime.join("apexd.sock")).unwrap();
        let shared = Shared::default();
        let (socket, of_connections) = (home.socket(), shared.clone());
        std::thread::spawn(move || {
            while let Ok((program, _)) = listener.accept() {
                let Ok(daemon) = UnixStream::connect(&socket) else {
                    return;
                };
                let ends = (program.try_clone().unwrap(), daemon.try_clone().unwrap());
                pass(Way::Up, (program, daemon), &of_connections);
                pass(Way::Down, (ends.1, ends.0), &of_connections);
            }
        });
        Self { runtime, shared }
    }

    /// Where its socket is.
    #[must_use]
    pub const fn runtime(&self) -> &PathBuf {
        &self.runtime
    }

    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.shared.0.lock().unwrap()
    }

    /// From now on lets nothing pass that way.
    pub fn hold(&self, way: Way) {
        self.lock().is_held[way as usize] = true;
    }

    /// Lets everything pass, what was held back first.
    pub fn release(&self, way: Way) {
        self.lock().is_held[way as usize] = false;
        self.shared.1.notify_all();
    }

    /// Waits until something was said, and returns what `look` found in it.
    #[track_caller]
    pub fn wait<T>(&self, what: &str, mut look: impl FnMut(&Passed) -> Option<T>) -> T {
        let mut found = None;
        let waited = self
            .shared
            .1
            .wait_timeout_while(self.lock(), PATIENCE, |passed| {
                found = look(passed);
                found.is_none()
            });
        let passed = waited.unwrap().0;
        found.unwrap_or_else(|| panic!("{what} did not pass; passed: {passed:#?}"))
    }
}

/// Lets one direction of a connection pass: a thread reads, another one writes, so that what is
/// held back is known.
fn pass(way: Way, (mut from, mut to): (UnixStream, UnixStream), shared: &Shared) {
    let queue = Queue::default();
    let (reading, shared) = (queue.clone(), shared.clone());
    let of_reader = shared.clone();
    std::thread::spawn(move || {
        let mut decoder = Decoder::default();
        let mut bytes = vec![0; 64 << 10];
        loop {
            let len = from.read(&mut bytes).unwrap_or(0);
            let mut queue = reading.0.lock().unwrap();
            queue.0.extend(&bytes[..len]);
            queue.1 |= len == 0;
            drop(queue);
            decoder.push(way, &bytes[..len], &mut of_reader.0.lock().unwrap());
            reading.1.notify_all();
            of_reader.1.notify_all();
            if len == 0 {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        loop {
            let idle = |queue: &mut (VecDeque<u8>, bool)| queue.0.is_empty() && !queue.1;
            drop(queue.1.wait_while(queue.0.lock().unwrap(), idle).unwrap());
            let is_held = |passed: &mut Passed| passed.is_held[way as usize];
            drop(
                shared
                    .1
                    .wait_while(shared.0.lock().unwrap(), is_held)
                    .unwrap(),
            );
            let (bytes, is_ended) = {
                let mut queue = queue.0.lock().unwrap();
                (Vec::from(std::mem::take(&mut queue.0)), queue.1)
            };
            if to.write_all(&bytes).is_err() || is_ended {
                to.shutdown(Shutdown::Write).ok();
                return;
            }
        }
    });
}

/// Reads one direction of a connection.
#[derive(Default)]
struct Decoder {
    preamble: PreambleReader,
    frames: Option<Frames>,
}

impl Decoder {
    fn push(&mut self, way: Way, bytes: &[u8], passed: &mut Passed) {
        match &mut self.frames {
            Some(frames) => frames.push(bytes),
            None => match self.preamble.push(bytes).unwrap() {
                Some((_, _, behind)) => self.frames = Some(Frames::new(behind)),
                None => return,
            },
        }
        let frames = self.frames.as_mut().expect("the first frame has passed");
        match way {
            Way::Up => {
                while let Some(message) = frames.next_client().unwrap() {
                    passed.up.push(message);
                }
            }
            Way::Down => {
                while let Some(message) = frames.next_server().unwrap() {
                    passed.down.push(message);
                }
            }
        }
    }
}
