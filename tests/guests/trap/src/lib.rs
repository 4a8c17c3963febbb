//! A tool that traps as soon as it hears of a put file.

#![cfg(target_family = "wasm")]

use apex::tool::types::{Entry, Error, Event};
use exports::apex::tool::{follower, lifecycle};

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package apex:tests;
        world trap {
            export apex:tool/lifecycle@1.0.0;
            export apex:tool/follower@1.0.0;
        }
    ",
    world: "apex:tests/trap",
    generate_all,
});
export!(Trap);

struct Trap;

impl lifecycle::Guest for Trap {
    fn start(_settings: Vec<(String, String)>) -> Result<lifecycle::Interest, Error> {
        Ok(lifecycle::Interest {
            follow: vec!["buffer:*".to_owned()],
            history: false,
        })
    }

    fn stop() {}
}

impl follower::Guest for Trap {
    fn apply(batch: Vec<Entry>) -> Result<(), Error> {
        if batch
            .iter()
            .any(|entry| matches!(entry.event, Event::Saved(_)))
        {
            panic!("the trap tool traps, as it is meant to");
        }
        Ok(())
    }
}
