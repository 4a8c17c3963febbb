//! What a component costs by itself: the tool `sink` in a bare store, without apex around it.
//!
//! The bindings are made from the same interface by the same generator, the engine is configured
//! as the tool host's. What `sink` imports is answered at once.

use apex_host::tools::engine::ToolEngine;
use wasmtime::Store;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use self::generated::Lift;
use self::generated::apex::tool::proposals::Change;
use self::generated::apex::tool::types::{BufferInfo, Edited, Entry, Error, Event, Span, Splice};
use self::generated::exports::apex::tool::outcomes::Landed;
use super::BenchError;
use super::sink::{BATCH_COUNT, WINDOW};

mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "
            package apex:bench;
            world lift {
                import apex:tool/session@1.0.0;
                import apex:tool/proposals@1.0.0;
                import apex:tool/desk@1.0.0;
                export apex:tool/follower@1.0.0;
                export apex:tool/outcomes@1.0.0;
            }
        ",
        world: "apex:bench/lift",
        exports: { default: async },
    });
}

/// The buffer that the entries are about.
const BUFFER: u64 = 1 << 40;

/// What the component meets.
struct Around {
    wasi: WasiCtx,
    table: ResourceTable,
    /// Answers to `tool.sink.propose` and `tool.sink.window`.
    propose: Option<String>,
    window: String,
    /// Settings it asked for, and proposals it made.
    settings: u64,
    proposals: u64,
}

impl WasiView for Around {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

/// The component in its store.
pub struct Bare {
    store: Store<Around>,
    lift: Lift,
    version: u64,
    // The epochs stop with it.
    _engine: ToolEngine,
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bare")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

fn answers(component: &Component) -> wasmtime::Result<Linker<Around>> {
    let mut linker = Linker::<Around>::new(component.engine());
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    linker.instance("apex:tool/desk@1.0.0")?.func_wrap(
        "setting",
        |mut store: wasmtime::StoreContextMut<'_, Around>, (key,): (String,)| {
            let around = store.data_mut();
            around.settings += 1;
            let answer = match key.as_str() {
                "tool.sink.propose" => around.propose.clone(),
                "tool.sink.window" => Some(around.window.clone()),
                "tool.sink.buffer" => Some("/bench".to_owned()),
                _ => None,
            };
            Ok((answer,))
        },
    )?;
    linker.instance("apex:tool/session@1.0.0")?.func_wrap(
        "buffer",
        |_: wasmtime::StoreContextMut<'_, Around>, (id,): (u64,)| {
            let info = BufferInfo {
                id,
                name: "/bench".to_owned(),
                directory: "/".to_owned(),
                version: 1,
                length: 1,
                lines: 1,
                line_end: 0,
                marks: 0,
            };
            Ok((Ok::<_, Error>(info),))
        },
    )?;
    linker.instance("apex:tool/proposals@1.0.0")?.func_wrap(
        "propose",
        |mut store: wasmtime::StoreContextMut<'_, Around>, (_,): (Vec<Change>,)| {
            let around = store.data_mut();
            around.proposals += 1;
            Ok((Ok::<_, Error>(around.proposals),))
        },
    )?;
    linker.define_unknown_imports_as_traps(component)?;
    Ok(linker)
}

impl Bare {
    /// Instantiates a component that makes no proposals yet.
    ///
    /// # Errors
    /// The bytes are no such component.
    pub async fn new(bytes: &[u8]) -> Result<Self, BenchError> {
        let engine = ToolEngine::new()?;
        let component = Component::new(engine.engine(), bytes)?;
        let linker = answers(&component)?;
        let around = Around {
            wasi: WasiCtx::builder().build(),
            table: ResourceTable::new(),
            propose: None,
            window: WINDOW.to_string(),
            settings: 0,
            proposals: 0,
        };
        let mut store = Store::new(engine.engine(), around);
        store.set_epoch_deadline(1 << 40);
        let lift = Lift::instantiate_async(&mut store, &component, &linker).await?;
        Ok(Self {
            store,
            lift,
            version: 0,
            _engine: engine,
        })
    }

    /// Returns the next edit, as the tool host tells it.
    fn edit(&mut self, by_proposal: bool) -> Entry {
        let before = self.version;
        self.version += 1;
        let at = Span {
            q0: before,
            q1: before,
        };
        Entry {
            shard: format!("buffer/{BUFFER}"),
            seq: self.version,
            author: 1,
            event: Event::Edited(Edited {
                buffer: BUFFER,
                before,
                after: self.version,
                splices: vec![Splice {
                    at,
                    text: "x".to_owned(),
                }],
                group: BUFFER + 1,
                undo: false,
                by_proposal,
            }),
        }
    }

    /// Tells it `batches` times the same number of edits; returns nanoseconds per edit.
    ///
    /// # Errors
    /// It fails, or did not look at each edit.
    pub async fn entries(&mut self, batches: u64) -> Result<f64, BenchError> {
        let batch: Vec<Entry> = (0..BATCH_COUNT).map(|_| self.edit(false)).collect();
        let before = self.store.data().settings;
        let start = super::stats::now();
        for _ in 0..batches {
            let follower = self.lift.apex_tool_follower();
            accepted(follower.call_apply(&mut self.store, &batch).await?)?;
        }
        let ns = start.elapsed().as_secs_f64() * 1e9;
        let count = batches * BATCH_COUNT;
        let seen = self.store.data().settings - before;
        if seen < count {
            return Err(BenchError::Wrong(format!(
                "sink looked at {seen} of {count} edits"
            )));
        }
        Ok(ns / count as f64)
    }

    /// Makes it propose `count` times, at most [`WINDOW`] undecided, and tells it of each edit that
    /// came of it and that it was accepted; returns nanoseconds per proposal.
    ///
    /// # Errors
    /// It fails, or made another number of proposals than asked for.
    pub async fn proposals(&mut self, count: u64) -> Result<f64, BenchError> {
        let before = self.store.data().proposals;
        self.store.data_mut().propose = Some(count.to_string());
        let start = super::stats::now();
        let edit = [self.edit(false)];
        let follower = self.lift.apex_tool_follower();
        accepted(follower.call_apply(&mut self.store, &edit).await?)?;
        let mut decided = before;
        while decided < self.store.data().proposals {
            let made = self.store.data().proposals;
            let first = self.version + 1;
            let batch: Vec<Entry> = (decided..made).map(|_| self.edit(true)).collect();
            let follower = self.lift.apex_tool_follower();
            accepted(follower.call_apply(&mut self.store, &batch).await?)?;
            for (id, version) in (decided + 1..=made).zip(first..) {
                let landed = [Landed {
                    buffer: BUFFER,
                    version,
                    window: 0,
                }];
                let outcomes = self.lift.apex_tool_outcomes();
                outcomes
                    .call_decided(&mut self.store, id, Ok(&landed))
                    .await?;
            }
            decided = made;
        }
        self.store.data_mut().propose = None;
        let ns = start.elapsed().as_secs_f64() * 1e9;
        let made = self.store.data().proposals - before;
        if made != count {
            return Err(BenchError::Wrong(format!("sink made {made} proposals")));
        }
        Ok(ns / made as f64)
    }
}

fn accepted(answer: Result<(), Error>) -> Result<(), BenchError> {
    answer.map_err(|error| BenchError::Wrong(format!("sink failed: {}", error.message)))
}
