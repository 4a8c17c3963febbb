//! Looking (B3): addresses, windows, files, else a literal search that wraps.

use apex_core::address;
use apex_core::ids::ViewId;
use apex_core::text::{Span, Text};

use super::exec::Order;
use super::files::join;
use super::motion::{is_word, run_at};
use super::{App, Effect};

/// Most code points that a name on disk may have to be looked for.
const NAME_COUNT_MAX: u64 = 4096;

/// Most code points of an address that a click takes.
const ADDRESS_COUNT_MAX: u64 = 256;

/// A look that waits for the answer which files exist.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    /// The body that is searched otherwise.
    body: Option<ViewId>,
    /// What is searched for.
    needle: String,
    /// Files it may mean, each with an address.
    candidates: Vec<(String, String)>,
}

impl App {
    /// Looks up the selection or the word at the cursor of the text that has the keyboard.
    pub(super) fn look_at_focus(&mut self) {
        let Some(view) = self.keyboard() else { return };
        let dot = self.dot(view);
        self.look(view, dot);
    }

    /// Looks up a swept text, or with an empty span what a click there means.
    pub(super) fn look(&mut self, view: ViewId, span: Span) {
        let Some((_, buffer, old)) = self.text(view) else {
            return;
        };
        let text = buffer.text();
        let is_in_selection = !old.dot.is_empty() && old.dot.q0 <= span.q0 && span.q0 <= old.dot.q1;
        let (word, name) = match span.is_empty() {
            true if is_in_selection => (old.dot, old.dot),
            true => (word_at(text, span.q0), name_at(text, span.q0)),
            false => (span, span),
        };
        let needle = text.slice(word);
        let name = if name.len() > NAME_COUNT_MAX {
            String::new()
        } else {
            text.slice(name)
        };
        let body = self.window_for(view).map(ViewId::Body);
        if body == Some(view) {
            // The search goes on behind what was clicked.
            self.set_dot(view, word);
        }
        if let Some(body) = body
            && let Some(address) = name.strip_prefix(':')
            && let address = address.trim_end_matches(':')
            && address::is_address(address)
        {
            let dot = if body == view {
                old.dot
            } else {
                self.dot(body)
            };
            return self.go_from(body, dot, address);
        }
        let candidates = candidates(&self.directory(view), &name);
        if self.show_open(&candidates) {
            return;
        }
        if candidates.is_empty() {
            return self.search(body, &needle);
        }
        let probe = self.next_probe;
        self.next_probe += 1;
        let paths = candidates.iter().map(|(path, _)| path.clone()).collect();
        self.probes.insert(
            probe,
            Probe {
                body,
                needle,
                candidates,
            },
        );
        self.effects.push(Effect::Probe { probe, paths });
    }

    /// Shows the window of the first candidate that is open.
    fn show_open(&mut self, candidates: &[(String, String)]) -> bool {
        for (path, address) in candidates {
            let bare = path.trim_end_matches('/');
            let state = self.node().state();
            let buffer = [bare.to_owned(), format!("{bare}/")]
                .into_iter()
                .find_map(|name| state.buffer_named(&name));
            let Some(window) = buffer.and_then(|id| self.node().window_of_buffer(id)) else {
                continue;
            };
            let view = ViewId::Body(window);
            if address.is_empty() {
                self.set_focus(view);
                self.uncover(window);
            } else {
                self.go_to(view, address);
            }
            return true;
        }
        false
    }

    /// Takes the answer which files of a probe exist.
    pub(super) fn probed(&mut self, probe: u64, found: &[String]) {
        let Some(probe) = self.probes.remove(&probe) else {
            return;
        };
        let file = probe
            .candidates
            .iter()
            .find(|(path, _)| found.contains(path));
        match file {
            Some((path, address)) => {
                if self.may_arrange() {
                    self.open("/", path, address, None);
                }
            }
            None => self.search(probe.body, &probe.needle),
        }
    }

    /// Searches a body for a text, from its selection on and round.
    pub(super) fn search(&mut self, body: Option<ViewId>, needle: &str) {
        let Some((view, (_, buffer, old))) = body.and_then(|view| Some((view, self.text(view)?)))
        else {
            return self.say("no window has the keyboard: click into one, or Alt-arrows");
        };
        if needle.is_empty() {
            return;
        }
        match buffer.text().find_wrapping(needle, old.dot) {
            Some(span) => self.select_and_show(view, span),
            None => {
                let shown: String = needle.chars().take(40).collect();
                self.say(format!("no {shown}"));
            }
        }
    }

    /// Looks a text up as if it had been swept in a view.
    pub(super) fn look_text(&mut self, view: ViewId, text: &str) {
        let candidates = candidates(&self.directory(view), text);
        if !self.show_open(&candidates) {
            self.search(Some(view), text);
        }
    }

    /// The command: searches for its argument, else for the selection.
    pub(super) fn look_command(&mut self, order: &Order) {
        let body = self.window_for(order.view).map(ViewId::Body);
        let needle = if order.argument.is_empty() {
            let selected = body.and_then(|body| self.text(body));
            selected.map_or_else(String::new, |(_, b, view)| b.text().slice(view.dot))
        } else {
            order.argument.clone()
        };
        self.search(body, &needle);
    }

    /// Puts the keyboard behind `Look ` in the tag, where Enter searches.
    pub(super) fn find(&mut self) {
        let Some(window) = self.focus.and_then(|view| self.window_for(view)) else {
            return self.say("no window has the keyboard: click into one, or Alt-arrows");
        };
        let tag = ViewId::Tag(window);
        let Some((_, buffer, _)) = self.text(tag) else {
            return;
        };
        let text = buffer.text().to_string();
        let len = buffer.text().len();
        let user_part = text.split_once('|').map_or("", |(_, user)| user);
        let Some(at) = user_part.rfind("Look ") else {
            self.set_focus(tag);
            self.set_dot(tag, Span::at(len));
            self.finding = Some(ViewId::Body(window));
            for c in " Look ".chars() {
                self.insert(c);
            }
            return;
        };
        let behind = user_part[at + "Look ".len()..].chars().count() as u64;
        self.set_focus(tag);
        self.set_dot(tag, Span::new(len - behind, len));
        self.finding = Some(ViewId::Body(window));
    }

    /// Ends a search in the tag. Returns whether there was one.
    pub(super) fn finish_find(&mut self) -> bool {
        let Some(body) = self.finding.take() else {
            return false;
        };
        let tag = self.focus.and_then(|view| self.text(view));
        let text = tag.map_or_else(String::new, |(_, buffer, _)| buffer.text().to_string());
        let needle = text
            .rsplit_once("Look ")
            .map_or("", |(_, needle)| needle)
            .to_owned();
        self.set_focus(body);
        self.search(Some(body), &needle);
        true
    }
}

/// Returns the files that a text may name, the likeliest first, each with an address.
fn candidates(directory: &str, name: &str) -> Vec<(String, String)> {
    let is_name = |name: &str| !name.trim().is_empty() && !name.contains('\n');
    if !is_name(name) {
        return Vec::new();
    }
    let bare = name.trim_end_matches(':');
    let (file, address) = address::split(bare);
    let mut found = vec![(join(directory, name), String::new())];
    if is_name(file) {
        found.push((join(directory, file), address.to_owned()));
    }
    let unstopped = file.trim_end_matches('.');
    if unstopped != file && is_name(unstopped) {
        found.push((join(directory, unstopped), address.to_owned()));
    }
    found.dedup();
    found
}

fn word_at(text: &Text, q: u64) -> Span {
    run_at(text, q, is_word)
}

/// Returns the file name with its address, or the address, at a click.
fn name_at(text: &Text, q: u64) -> Span {
    let run = run_at(text, q, |c| is_word(c) || ".-+/:@#".contains(c));
    let mut colons = (run.q0..run.q1).filter(|q| text.char_at(*q) == Some(':'));
    // An address has characters that no name has, and goes on where the name ends.
    let end = colons.find_map(|colon| {
        let behind = Span::new(colon + 1, text.line_end(colon));
        let line = text.slice(behind.clamped(colon + 1 + ADDRESS_COUNT_MAX));
        let end = colon + 1 + address::head(&line).chars().count() as u64;
        (end > run.q1).then_some(end)
    });
    Span::new(run.q0, end.unwrap_or(run.q1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_file_with_or_without_an_address() {
        let check = |name: &str, expect: &[(&str, &str)]| {
            let found = candidates("/d/", name);
            let found: Vec<_> = found
                .iter()
                .map(|(p, a)| (p.as_str(), a.as_str()))
                .collect();
            assert_eq!(found, expect, "{name}");
        };
        check("a.c", &[("/d/a.c", "")]);
        check("a.c:12", &[("/d/a.c:12", ""), ("/d/a.c", "12")]);
        check("a.c:12:5:", &[("/d/a.c:12:5:", ""), ("/d/a.c", "12:5")]);
        check("src/", &[("/d/src/", "")]);
        check("see.", &[("/d/see.", ""), ("/d/see", "")]);
        check("two\nlines", &[]);
        check(" ", &[]);
    }

    #[test]
    fn a_click_takes_the_name_or_the_word_round_it() {
        let text = Text::from("at src/ma_in.rs:12:5: error");
        assert_eq!(text.slice(name_at(&text, 9)), "src/ma_in.rs:12:5:");
        for (source, q, expect) in [
            ("at a.c:/fn main/: no", 3, "a.c:/fn main/"),
            ("at a.c:12,14: no", 3, "a.c:12,14"),
            ("at a.c:12, then", 3, "a.c:12"),
            ("at a.c:$, the end", 3, "a.c:$"),
            ("at a.c:#5,#9.", 4, "a.c:#5,#9"),
            ("at a.c:0;/x/.", 4, "a.c:0;/x/"),
            ("at a.c:-/re/", 4, "a.c:-/re/"),
            ("at :$ now", 3, ":$"),
            ("at a.c: now", 3, "a.c:"),
            ("at host:/usr/x y", 3, "host:/usr/x"),
        ] {
            let text = Text::from(source);
            assert_eq!(text.slice(name_at(&text, q)), expect, "{source}");
        }
        assert_eq!(text.slice(word_at(&text, 9)), "ma_in");
        assert_eq!(text.slice(word_at(&text, 2)), "at");
    }
}
