//! A tool that takes memory until it gets no more once it has heard of a put file.

#![cfg(target_family = "wasm")]

use apex::tool::types::{Entry, Error, Event};
use exports::apex::tool::{follower, lifecycle};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package apex:tests;
        world alloc {
            export apex:tool/lifecycle@1.0.0;
            export apex:tool/follower@1.0.0;
        }
    ",
    world: "apex:tests/alloc",
    generate_all,
});
export!(Alloc);

struct Alloc;

impl lifecycle::Guest for Alloc {
    fn start(_settings: Vec<(String, String)>) -> Result<lifecycle::Interest, Error> {
        Ok(lifecycle::Interest {
            follow: vec!["buffer:*".to_owned()],
            history: false,
        })
    }

    fn stop() {}
}

impl follower::Guest for Alloc {
    fn apply(batch: Vec<Entry>) -> Result<(), Error> {
        if batch
            .iter()
            .any(|entry| matches!(entry.event, Event::Saved(_)))
        {
            let mut hoard: Vec<Vec<u8>> = Vec::new();
            loop {
                // Written to, so that the memory is really taken.
                hoard.push(std::hint::black_box(vec![1; 1 << 20]));
            }
        }
        Ok(())
    }
}
