//! Finds the place of a field in a file, for errors that are noticed only after reading.

use super::{Format, Position};

/// One step of a path: a key or an index.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// The position of the field that a path such as `nodes[2].gpus[0].vram_mib` names, or of the nearest thing around it.
pub fn locate(text: &str, format: Format, path: &str) -> Option<Position> {
    place(text, format, path, false)
}

/// The same, or the position of the field's name.
pub(super) fn place(text: &str, format: Format, path: &str, name: bool) -> Option<Position> {
    if path.is_empty() {
        return None;
    }
    let steps = steps(path);
    let Offsets { of_name, of_value } = match format {
        Format::Toml => locate_toml(text, &steps),
        Format::Json => Some(locate_json(text, &steps)),
    }?;
    Some(Position::of(text, if name { of_name } else { of_value }))
}

/// Where a field begins. An element of a list has no name; what counts for it is itself.
#[derive(Clone, Copy)]
struct Offsets {
    of_name: usize,
    of_value: usize,
}

fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            steps.push(Step::Key(key));
        }
        while let Some((index, tail)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let Ok(index) = index.parse() else { break };
            steps.push(Step::Index(index));
            rest = tail;
        }
    }
    steps
}

fn locate_toml(text: &str, steps: &[Step<'_>]) -> Option<Offsets> {
    use toml::de::DeValue;
    let document = toml::de::DeTable::parse(text).ok()?;
    let [Step::Key(first), rest @ ..] = steps else { return None };
    let (key, mut value) = document.get_ref().get_key_value(*first)?;
    let mut found = Offsets { of_name: key.span().start, of_value: value.span().start };
    for step in rest {
        let next = match (step, value.get_ref()) {
            (Step::Key(key), DeValue::Table(table)) => {
                table.get_key_value(*key).map(|(key, value)| (key.span().start, value))
            }
            (Step::Index(index), DeValue::Array(array)) => {
                array.get(*index).map(|value| (value.span().start, value))
            }
            _ => None,
        };
        let Some((of_name, next)) = next else { break };
        value = next;
        found = Offsets { of_name, of_value: value.span().start };
    }
    Some(found)
}

/// Walks JSON text that is known to be well formed; stops at the last step that exists.
fn locate_json(text: &str, steps: &[Step<'_>]) -> Offsets {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
    scanner.space();
    let mut found = Offsets { of_name: scanner.at, of_value: scanner.at };
    for step in steps {
        let of_name = match step {
            Step::Key(key) => scanner.enter_key(key),
            Step::Index(index) => scanner.enter_index(*index).then_some(scanner.at),
        };
        let Some(of_name) = of_name else { break };
        found = Offsets { of_name, of_value: scanner.at };
    }
    found
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while self.peek().is_ascii_whitespace() {
            self.at += 1;
        }
    }

    /// Skips one string, number, word, list or object.
    fn skip(&mut self) {
        let mut depth = 0usize;
        loop {
            self.space();
            match self.peek() {
                0 => return,
                b'"' => {
                    self.string();
                }
                b'[' | b'{' => {
                    depth += 1;
                    self.at += 1;
                }
                b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' => self.at += 1,
                _ => {
                    while !matches!(self.peek(), 0 | b',' | b']' | b'}' | b':')
                        && !self.peek().is_ascii_whitespace()
                    {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) -> &[u8] {
        let start = self.at + 1;
        self.at = start;
        while !matches!(self.peek(), 0 | b'"') {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        let end = self.at.min(self.bytes.len());
        self.at += 1;
        &self.bytes[start.min(end)..end]
    }

    /// Goes to the value of a name, and says where the name began.
    fn enter_key(&mut self, key: &str) -> Option<usize> {
        if self.peek() != b'{' {
            return None;
        }
        self.at += 1;
        loop {
            self.space();
            if self.peek() != b'"' {
                return None;
            }
            let began = self.at;
            let found = self.string() == key.as_bytes();
            self.space();
            self.at += 1;
            self.space();
            if found {
                return Some(began);
            }
            self.skip();
            self.space();
            if self.peek() != b',' {
                return None;
            }
            self.at += 1;
        }
    }

    fn enter_index(&mut self, index: usize) -> bool {
        if self.peek() != b'[' {
            return false;
        }
        self.at += 1;
        self.space();
        for _ in 0..index {
            self.skip();
            self.space();
            if self.peek() != b',' {
                return false;
            }
            self.at += 1;
            self.space();
        }
        !matches!(self.peek(), b']' | 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, format: Format, path: &str) -> Option<usize> {
        locate(text, format, path).map(|position| position.line)
    }

    #[test]
    fn fields_are_found_in_toml() {
        let text = "now_ms = 1\n[[nodes]]\nid = \"a\"\n[[nodes]]\nid = \"b\"\ngpus = [\n  { vram_mib = 1 },\n  { vram_mib = 2 },\n]\n";
        assert_eq!(line(text, Format::Toml, "nodes[1].gpus[1].vram_mib"), Some(8));
        assert_eq!(line(text, Format::Toml, "nodes[1].nothing"), Some(4));
        assert_eq!(line(text, Format::Toml, ""), None);
    }

    #[test]
    fn fields_are_found_in_json() {
        let text = "{\n \"x\": [1, {\"y\": \"]}\\\"\"}],\n \"nodes\": [\n  {\"id\": \"a\"},\n  {\"id\": \"b\",\n   \"gpus\": [{},\n    {\"vram_mib\": 2}]}\n ]\n}";
        assert_eq!(line(text, Format::Json, "nodes[1].gpus[1].vram_mib"), Some(7));
        assert_eq!(line(text, Format::Json, "nodes[0].id"), Some(4));
        assert_eq!(line(text, Format::Json, "nodes[9].id"), Some(3));
    }
}
