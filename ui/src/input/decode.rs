//! The bytes of a terminal as events: UTF-8, control characters, xterm's sequences for keys with
//! modifiers, SGR mouse reports and bracketed paste.
//!
//! Our own, because crossterm's reader waits for the rest of a cut sequence with everything else
//! standing still, and may leave bytes unread until the next key.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// Longest sequence that is waited for; a longer one is no sequence.
const SEQUENCE_LEN_MAX: usize = 64;
const PASTE_END: &[u8] = b"\x1b[201~";

/// Turns bytes into events; keeps what is cut for the next bytes.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Where the search for the end of a paste goes on; none outside a paste.
    paste: Option<usize>,
}

/// What the bytes begin with.
enum Step {
    /// An event, or nothing of interest, of so many bytes.
    Took(usize, Option<Event>),
    /// A paste begins behind so many bytes.
    Paste(usize),
    /// More bytes are needed.
    Cut,
}

impl Decoder {
    /// Takes bytes; appends the events that are complete.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        self.bytes.extend_from_slice(bytes);
        self.decode(events);
    }

    /// Returns whether bytes wait that may be whole by themselves: an escape key, or a cut
    /// sequence.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.paste.is_none() && !self.bytes.is_empty()
    }

    /// Takes what waits as it is, because nothing followed.
    pub fn flush(&mut self, events: &mut Vec<Event>) {
        if !self.is_waiting() {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        match bytes.as_slice() {
            [0x1b] => events.push(key(KeyCode::Esc, KeyModifiers::NONE)),
            [0x1b, 0x1b] => events.extend([(); 2].map(|()| key(KeyCode::Esc, KeyModifiers::NONE))),
            [0x1b, c @ (b'[' | b'O')] => {
                events.push(key(KeyCode::Char(char::from(*c)), KeyModifiers::ALT));
            }
            // A sequence that the terminal never ended means nothing.
            _ => {}
        }
    }

    fn decode(&mut self, events: &mut Vec<Event>) {
        let mut at = 0;
        loop {
            if let Some(from) = self.paste {
                let found = find(&self.bytes[from..], PASTE_END);
                let Some(end) = found.map(|end| from + end) else {
                    self.paste = Some(from.max(self.bytes.len().saturating_sub(PASTE_END.len())));
                    // The pasted text so far stays at the front.
                    return drop(self.bytes.drain(..at));
                };
                let text = String::from_utf8_lossy(&self.bytes[at..end]).into_owned();
                events.push(Event::Paste(text));
                self.paste = None;
                at = end + PASTE_END.len();
            }
            match step(&self.bytes[at..]) {
                Step::Took(len, event) => {
                    at += len;
                    events.extend(event);
                }
                Step::Paste(len) => {
                    drop(self.bytes.drain(..at + len));
                    at = 0;
                    self.paste = Some(0);
                }
                Step::Cut => return drop(self.bytes.drain(..at)),
            }
        }
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
    Event::Key(KeyEvent::new(code, modifiers))
}

fn step(bytes: &[u8]) -> Step {
    match bytes {
        [] | [0x1b] => Step::Cut,
        [0x1b, b'[', rest @ ..] => control_sequence(rest),
        [0x1b, b'O', rest @ ..] => match rest {
            [] => Step::Cut,
            [last, ..] => Step::Took(
                3,
                letter_key(*last).map(|code| key(code, KeyModifiers::NONE)),
            ),
        },
        [0x1b, rest @ ..] => with_alt(step(rest)),
        [first, ..] => plain(*first, bytes),
    }
}

/// An escape before a key is Alt.
fn with_alt(step: Step) -> Step {
    match step {
        Step::Took(len, Some(Event::Key(mut event))) => {
            event.modifiers |= KeyModifiers::ALT;
            Step::Took(len + 1, Some(Event::Key(event)))
        }
        Step::Took(len, event) => Step::Took(len + 1, event),
        Step::Paste(len) => Step::Paste(len + 1),
        Step::Cut => Step::Cut,
    }
}

fn plain(first: u8, bytes: &[u8]) -> Step {
    let control = |c: u8| key(KeyCode::Char(char::from(c)), KeyModifiers::CONTROL);
    let event = match first {
        b'\r' => key(KeyCode::Enter, KeyModifiers::NONE),
        b'\t' => key(KeyCode::Tab, KeyModifiers::NONE),
        0x7f => key(KeyCode::Backspace, KeyModifiers::NONE),
        0 => control(b' '),
        0x01..=0x1a => control(first - 1 + b'a'),
        0x1b..=0x1f => control(first - 0x1c + b'4'),
        0x20..=0x7e => key(KeyCode::Char(char::from(first)), KeyModifiers::NONE),
        _ => return character(bytes),
    };
    Step::Took(1, Some(event))
}

fn character(bytes: &[u8]) -> Step {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) if error.error_len().is_none() => return Step::Cut,
        // No character: a terminal that does not speak UTF-8.
        Err(_) => return Step::Took(1, None),
    };
    let c = valid.chars().next();
    let len = c.map_or(1, char::len_utf8);
    Step::Took(len, c.map(|c| key(KeyCode::Char(c), KeyModifiers::NONE)))
}

/// Decodes what follows `ESC [`.
fn control_sequence(rest: &[u8]) -> Step {
    // An old mouse report has three bytes behind its M.
    if let [b'M', report @ ..] = rest {
        return if report.len() < 3 {
            Step::Cut
        } else {
            Step::Took(6, None)
        };
    }
    let Some(last) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        let is_endless = rest.len() > SEQUENCE_LEN_MAX;
        return if is_endless {
            Step::Took(2, None)
        } else {
            Step::Cut
        };
    };
    let len = last + 3;
    let parameters = std::str::from_utf8(&rest[..last]).unwrap_or_default();
    let event = match (rest[last], parameters.strip_prefix('<')) {
        (final_byte @ (b'M' | b'm'), Some(report)) => mouse(report, final_byte == b'm'),
        (b'~', None) if parameters == "200" => return Step::Paste(len),
        (final_byte, None) => sequence_key(final_byte, parameters),
        (_, Some(_)) => None,
    };
    Step::Took(len, event)
}

fn numbers(parameters: &str) -> [u32; 3] {
    let mut numbers = [0; 3];
    for (number, text) in numbers.iter_mut().zip(parameters.split(';')) {
        // What follows a colon refines a parameter; its head is what counts.
        *number = text
            .split(':')
            .next()
            .and_then(|head| head.parse().ok())
            .unwrap_or(0);
    }
    numbers
}

fn modifiers(parameter: u32) -> KeyModifiers {
    let bits = parameter.saturating_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
    ] {
        if bits & bit != 0 {
            modifiers |= modifier;
        }
    }
    modifiers
}

fn sequence_key(last: u8, parameters: &str) -> Option<Event> {
    let [first, second, third] = numbers(parameters);
    match last {
        b'~' if first == 27 => code_key(third, modifiers(second)),
        b'~' => Some(key(numbered_key(first)?, modifiers(second))),
        b'u' => code_key(first, modifiers(second)),
        b'Z' => Some(key(KeyCode::BackTab, KeyModifiers::SHIFT)),
        _ => Some(key(letter_key(last)?, modifiers(second))),
    }
}

/// Returns the key of a code point with modifiers.
fn code_key(code: u32, modifiers: KeyModifiers) -> Option<Event> {
    let code = match char::from_u32(code)? {
        '\r' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\u{1b}' => KeyCode::Esc,
        '\u{7f}' => KeyCode::Backspace,
        c => KeyCode::Char(c),
    };
    Some(key(code, modifiers))
}

const fn letter_key(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'P' => KeyCode::F(1),
        b'Q' => KeyCode::F(2),
        b'R' => KeyCode::F(3),
        b'S' => KeyCode::F(4),
        b'M' => KeyCode::Enter,
        _ => return None,
    })
}

const fn numbered_key(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11 => KeyCode::F(1),
        12 => KeyCode::F(2),
        13 => KeyCode::F(3),
        14 => KeyCode::F(4),
        15 => KeyCode::F(5),
        17 => KeyCode::F(6),
        18 => KeyCode::F(7),
        19 => KeyCode::F(8),
        20 => KeyCode::F(9),
        21 => KeyCode::F(10),
        23 => KeyCode::F(11),
        24 => KeyCode::F(12),
        _ => return None,
    })
}

fn mouse(report: &str, is_release: bool) -> Option<Event> {
    let [bits, x, y] = numbers(report);
    let button = match bits & 0b11 {
        0 => Some(MouseButton::Left),
        1 => Some(MouseButton::Middle),
        2 => Some(MouseButton::Right),
        _ => None,
    };
    let kind = match (bits & 0b1100_0000, bits & 32 != 0, button) {
        (0, true, Some(button)) => MouseEventKind::Drag(button),
        (0, true, None) => MouseEventKind::Moved,
        (0, false, Some(button)) if is_release => MouseEventKind::Up(button),
        (0, false, Some(button)) => MouseEventKind::Down(button),
        (64, _, Some(MouseButton::Left)) => MouseEventKind::ScrollUp,
        (64, _, Some(MouseButton::Middle)) => MouseEventKind::ScrollDown,
        _ => return None,
    };
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in [
        (4, KeyModifiers::SHIFT),
        (8, KeyModifiers::ALT),
        (16, KeyModifiers::CONTROL),
    ] {
        if bits & bit != 0 {
            modifiers |= modifier;
        }
    }
    let cell = |n: u32| u16::try_from(n.saturating_sub(1)).unwrap_or(u16::MAX);
    Some(Event::Mouse(MouseEvent {
        kind,
        column: cell(x),
        row: cell(y),
        modifiers,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut decoder = Decoder::default();
        decoder.push(bytes, &mut events);
        decoder.flush(&mut events);
        events
    }

    #[test]
    fn keys_are_decoded_with_their_modifiers() {
        use KeyCode::{Backspace, Char, Delete, Down, Enter, Esc, F, Home, PageUp, Right, Tab, Up};
        const NONE: KeyModifiers = KeyModifiers::NONE;
        const ALT: KeyModifiers = KeyModifiers::ALT;
        const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
        for (bytes, code, modifiers) in [
            (b"a".as_slice(), Char('a'), NONE),
            ("漢".as_bytes(), Char('漢'), NONE),
            (b"\r", Enter, NONE),
            (b"\n", Char('j'), CONTROL),
            (b"\t", Tab, NONE),
            (b"\x7f", Backspace, NONE),
            (b"\x13", Char('s'), CONTROL),
            (b"\x1b", Esc, NONE),
            (b"\x1b\r", Enter, ALT),
            (b"\x1bl", Char('l'), ALT),
            (b"\x1b[A", Up, NONE),
            (b"\x1bOB", Down, NONE),
            (b"\x1b[1;5C", Right, CONTROL),
            (b"\x1b[1;4A", Up, ALT.union(KeyModifiers::SHIFT)),
            (b"\x1b\x1b[A", Up, ALT),
            (b"\x1b[1~", Home, NONE),
            (b"\x1b[3~", Delete, NONE),
            (b"\x1b[5;2~", PageUp, KeyModifiers::SHIFT),
            (b"\x1b[15~", F(5), NONE),
            (b"\x1bOQ", F(2), NONE),
            (b"\x1b[13;3u", Enter, ALT),
            (b"\x1b[27;5;13~", Enter, CONTROL),
            (b"\x1b[", Char('['), ALT),
        ] {
            assert_eq!(decode(bytes), [key(code, modifiers)], "{bytes:?}");
        }
    }

    #[test]
    fn sequences_may_be_cut_anywhere() {
        let whole = b"x\x1b[1;5C\xe6\xbc\xa2\x1b[<0;3;4M\x1b[200~a\x1b[31mb\r\x1b[201~\x1bl";
        let expect = decode(whole);
        assert_eq!(expect.len(), 6);
        assert_eq!(expect[4], Event::Paste("a\u{1b}[31mb\r".into()));
        for cut in 0..whole.len() {
            let mut events = Vec::new();
            let mut decoder = Decoder::default();
            decoder.push(&whole[..cut], &mut events);
            decoder.push(&whole[cut..], &mut events);
            assert_eq!(events, expect, "cut at {cut}");
        }
        let mut events = Vec::new();
        let mut decoder = Decoder::default();
        whole
            .iter()
            .for_each(|byte| decoder.push(&[*byte], &mut events));
        assert_eq!(events, expect);
    }

    #[test]
    fn mice_report_buttons_motion_and_wheels() {
        for (bytes, kind, modifiers) in [
            (
                "\x1b[<0;3;4M",
                MouseEventKind::Down(MouseButton::Left),
                KeyModifiers::NONE,
            ),
            (
                "\x1b[<2;3;4m",
                MouseEventKind::Up(MouseButton::Right),
                KeyModifiers::NONE,
            ),
            (
                "\x1b[<33;3;4M",
                MouseEventKind::Drag(MouseButton::Middle),
                KeyModifiers::NONE,
            ),
            (
                "\x1b[<65;3;4M",
                MouseEventKind::ScrollDown,
                KeyModifiers::NONE,
            ),
            (
                "\x1b[<16;3;4M",
                MouseEventKind::Down(MouseButton::Left),
                KeyModifiers::CONTROL,
            ),
        ] {
            let expect = Event::Mouse(MouseEvent {
                kind,
                column: 2,
                row: 3,
                modifiers,
            });
            assert_eq!(decode(bytes.as_bytes()), [expect], "{bytes:?}");
        }
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(
            decode(b"\xffa"),
            [key(KeyCode::Char('a'), KeyModifiers::NONE)]
        );
        assert_eq!(
            decode(b"\x1b[?1;2ca"),
            [key(KeyCode::Char('a'), KeyModifiers::NONE)]
        );
        assert!(decode(&[b"\x1b[".as_slice(), &[b'1'; 100]].concat()).len() > 90);
        assert_eq!(decode(b"\x1b[12;"), []);
    }
}
