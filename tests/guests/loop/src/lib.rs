//! A tool that never returns once it has heard of a put file.

#![cfg(target_family = "wasm")]

use apex::tool::types::{Entry, Error, Event};
use exports::apex::tool::{follower, lifecycle};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package apex:tests;
        world loop {
            export apex:tool/lifecycle@1.0.0;
            export apex:tool/follower@1.0.0;
        }
    ",
    world: "apex:tests/loop",
    generate_all,
});
export!(Loop);

struct Loop;

impl lifecycle::Guest for Loop {
    fn start(_settings: Vec<(String, String)>) -> Result<lifecycle::Interest, Error> {
        Ok(lifecycle::Interest {
            follow: vec!["buffer:*".to_owned()],
            history: false,
        })
    }

    fn stop() {}
}

impl follower::Guest for Loop {
    fn apply(batch: Vec<Entry>) -> Result<(), Error> {
        if batch
            .iter()
            .any(|entry| matches!(entry.event, Event::Saved(_)))
        {
            // So that a test knows, without waiting for a time.
            eprintln!("loops from here on");
            let mut turns: u64 = 0;
            loop {
                turns = std::hint::black_box(turns.wrapping_add(1));
            }
        }
        Ok(())
    }
}
