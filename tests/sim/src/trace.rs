//! What happened in a world: a running hash of all of it, and words for whoever asks to be told.

/// The course of a world.
#[derive(Debug)]
pub(crate) struct Trace {
    hasher: blake3::Hasher,
    told: Option<Vec<String>>,
    count: u64,
}

impl Trace {
    pub(crate) fn new(is_telling: bool) -> Self {
        Self {
            hasher: blake3::Hasher::new(),
            told: is_telling.then(Vec::new),
            count: 0,
        }
    }

    /// Notes something: what it is enters the hash as bytes, and the words are made if asked for.
    pub(crate) fn note(&mut self, now_us: u64, bytes: &[u8], words: impl FnOnce() -> String) {
        self.count += 1;
        self.hasher.update(&now_us.to_le_bytes());
        self.hasher.update(bytes);
        if let Some(told) = &mut self.told {
            let (ms, us) = (now_us / 1000, now_us % 1000);
            told.push(format!("{ms:>8}.{us:03} {}", words()));
        }
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn hash(&self) -> [u8; 32] {
        *self.hasher.finalize().as_bytes()
    }

    pub(crate) fn take_words(&mut self) -> Vec<String> {
        self.told.take().unwrap_or_default()
    }
}
