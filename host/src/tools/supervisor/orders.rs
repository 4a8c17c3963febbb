//! What users order and ask of the tool host.

use std::path::{Path, PathBuf};

use apex_core::message::{Answer, ErrorCode, ErrorMessage, ToolInfo, ToolOrder};

use super::super::grants::{Grants, GrantsError, is_same};
use super::super::slot::{FileState, Slot};
use super::{Supervisor, refusal};
use crate::seam::ToolHostMessage;

type Ordered = Result<Answer, ErrorMessage>;

impl Supervisor {
    /// Answers a question or an order. Who asked may have stopped waiting.
    pub(super) fn answer(&mut self, message: ToolHostMessage) {
        match message {
            ToolHostMessage::Order { order, reply } => {
                let answer = self.order(order);
                drop(reply.send(answer));
            }
            ToolHostMessage::List { reply } => drop(reply.send(self.list())),
            ToolHostMessage::Log { tool, reply } => {
                let lines = self.named(&tool).map(|slot| slot.log.newest());
                drop(reply.send(lines));
            }
            _ => {}
        }
    }

    /// Returns all tools, by name, those that come first before those that they hide.
    fn list(&self) -> Vec<ToolInfo> {
        let mut slots: Vec<&Slot> = self.slots.values().collect();
        slots.sort_by(|a, b| (&a.name, a.rank, &a.path).cmp(&(&b.name, b.rank, &b.path)));
        slots.into_iter().map(Slot::info).collect()
    }

    fn order(&mut self, order: ToolOrder) -> Ordered {
        match order {
            ToolOrder::Grant(name) => self.grant(&name),
            ToolOrder::GrantDev(path) => self.grant_dev(Path::new(&path)),
            ToolOrder::Revoke(name) => self.revoke(&name),
            ToolOrder::Reload(name) => self.reload(&name),
        }
    }

    /// Returns the tool of a name that comes first.
    fn named(&self, name: &str) -> Result<&Slot, ErrorMessage> {
        let slots = self.slots.values().filter(|slot| &*slot.name == name);
        slots
            .min_by_key(|slot| (slot.rank, &slot.path))
            .ok_or_else(|| {
                let mut names: Vec<&str> = self.slots.values().map(|slot| &*slot.name).collect();
                names.sort_unstable();
                names.dedup();
                let known = match names.as_slice() {
                    [] => "there are none".to_owned(),
                    names => format!("there are {}", names.join(", ")),
                };
                let message = format!("no tool {name}; {known} in {}", self.places());
                refusal(ErrorCode::NotFound, message)
            })
    }

    fn places(&self) -> String {
        let dirs = self
            .config
            .plugin_dirs
            .iter()
            .map(|dir| dir.display().to_string());
        dirs.collect::<Vec<_>>().join(" and ")
    }

    fn grants(&self) -> Result<Grants, ErrorMessage> {
        Grants::read(&self.config.grants_path).map_err(|error| not_written(&error))
    }

    fn grant(&mut self, name: &str) -> Ordered {
        let slot = self.named(name)?;
        let Some(offer) = slot.offer().cloned() else {
            return Err(no_offer(slot));
        };
        let mut grants = self.grants()?;
        let granted = grants.grant(&offer.manifest, &offer.sha256);
        granted.map_err(|error| not_written(&error))?;
        let path = slot.path.clone();
        let mut lines = vec![format!(
            "granted to {name}: {} {}, sha256 {}",
            offer.manifest.id, offer.manifest.version, offer.sha256
        )];
        lines.extend(offer.manifest.wants.iter().map(|want| format!("  {want}")));
        self.start_anew(&path);
        Ok(Answer::Lines(lines))
    }

    fn grant_dev(&mut self, path: &Path) -> Ordered {
        let slot = self.slots.values().find(|slot| is_same(&slot.path, path));
        let Some(slot) = slot else {
            let message = format!(
                "{} is in no plugin directory; put it, or a symbolic link to it, into {}",
                path.display(),
                self.places()
            );
            return Err(refusal(ErrorCode::NotFound, message));
        };
        let path = slot.path.clone();
        let line = format!(
            "granted for development: whatever {} is, and whatever it asks for",
            path.display()
        );
        self.grants()?
            .grant_dev(&path)
            .map_err(|error| not_written(&error))?;
        self.start_anew(&path);
        Ok(Answer::Lines(vec![line]))
    }

    fn revoke(&mut self, name: &str) -> Ordered {
        let slot = self.named(name)?;
        let running = slot.running.as_ref().map(|running| &running.offer);
        let offer = running.or_else(|| slot.offer());
        let Some(id) = offer.map(|offer| offer.manifest.id.clone()) else {
            return Err(no_offer(slot));
        };
        let path = slot.path.clone();
        self.grants()?
            .revoke(&id, &path)
            .map_err(|error| not_written(&error))?;
        if let Some(slot) = self.slots.get_mut(&path) {
            if let Some(running) = &slot.running {
                // The call that may be running is refused from its next import on.
                running.rights.revoke();
            }
            slot.log.push_host("the user took the grant back");
            drop(slot.dismiss());
        }
        self.consider_name(name);
        Ok(Answer::Done)
    }

    fn reload(&mut self, name: &str) -> Ordered {
        let slot = self.named(name)?;
        if let FileState::Invalid { .. } = slot.file
            && slot.running.is_none()
        {
            return Err(no_offer(slot));
        }
        let path = slot.path.clone();
        self.start_anew(&path);
        let slot = self.named(name)?;
        if slot.running.is_none() && !slot.standing.is_granted() {
            return Err(refusal(ErrorCode::Denied, slot.info().note));
        }
        Ok(Answer::Done)
    }

    /// Starts a tool again: the file's version if it may run, else the one that ran.
    fn start_anew(&mut self, path: &PathBuf) {
        let Some(slot) = self.slots.get_mut(path) else {
            return;
        };
        let name = std::sync::Arc::clone(&slot.name);
        let before = slot.running.as_ref().map(|running| running.offer.clone());
        self.consider_name(&name);
        let Some(running) = self.slots.get(path).and_then(|slot| slot.running.as_ref()) else {
            return;
        };
        // If the version changed it has just been started.
        if before.is_some_and(|before| before.is_same(&running.offer)) {
            let (offer, loaded) = (
                running.offer.clone(),
                std::sync::Arc::clone(&running.loaded),
            );
            self.activate(path, offer, loaded);
        }
    }
}

fn no_offer(slot: &Slot) -> ErrorMessage {
    let info = slot.info();
    refusal(
        ErrorCode::Denied,
        format!("{} is {}: {}", info.name, info.state, info.note),
    )
}

fn not_written(error: &GrantsError) -> ErrorMessage {
    refusal(ErrorCode::System, error.to_string())
}
