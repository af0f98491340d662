//! Rust text taken apart far enough to judge it: comments, words with their lines, and whole paths.
//!
//! Not a parser. What stands in strings, characters and comments is no code; `use a::{b, c::d}` is `a::b` and
//! `a::c::d`; nothing is resolved.

/// One word or sign of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub line: usize,
    pub text: String,
}

/// A text taken apart.
#[derive(Debug, Default)]
pub struct Source {
    pub tokens: Vec<Token>,
    /// Line and text of each line of each comment that is no documentation.
    pub comments: Vec<(usize, String)>,
}

/// A path as it is written, groups unfolded.
#[derive(Debug, PartialEq, Eq)]
pub struct Path {
    pub line: usize,
    pub segments: Vec<String>,
    /// Whether it begins a `use` or `extern crate`.
    pub imported: bool,
}

impl Source {
    pub fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut reader = Reader { chars: &chars, at: 0, line: 1, source: Source::default() };
        while reader.at < chars.len() {
            reader.step();
        }
        reader.source
    }

    /// Every path, and every lone word that begins one.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            if is_word(self.text(at)) {
                let imported = at > 0 && matches!(self.text(at - 1), "use" | "crate");
                at = self.path(at, &mut Vec::new(), imported, &mut paths);
            } else {
                at += 1;
            }
        }
        paths
    }

    /// Reads one path or branch from `at` on; says where it ends.
    fn path(&self, mut at: usize, head: &mut Vec<String>, imported: bool, paths: &mut Vec<Path>) -> usize {
        let length = head.len();
        let line = self.tokens[at].line;
        loop {
            match self.text(at) {
                "{" => {
                    at += 1;
                    while !matches!(self.text(at), "}" | "") {
                        at = if self.text(at) == "," { at + 1 } else { self.path(at, head, imported, paths) };
                    }
                    at += 1;
                    break;
                }
                text => {
                    head.push(text.to_owned());
                    at += 1;
                    let goes_on =
                        self.text(at) == "::" && (is_word(self.text(at + 1)) || matches!(self.text(at + 1), "{" | "*"));
                    if !goes_on {
                        paths.push(Path { line, segments: head.clone(), imported });
                        break;
                    }
                    at += 1;
                }
            }
        }
        head.truncate(length);
        // In an import `as other` is a new name, no path; elsewhere a type follows.
        if imported && self.text(at) == "as" { at + 2 } else { at }
    }

    /// The word at a place; empty behind the end.
    pub fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }
}

pub fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    line: usize,
    source: Source,
}

impl Reader<'_> {
    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.line_comment(),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('r', '"' | '#') if self.raw_hashes().is_some() => self.raw_string(),
            ('\'', _) => self.quote(),
            (':', ':') => {
                self.token("::".to_owned());
                self.at += 2;
            }
            (c, _) if is_word(&c.to_string()) || c.is_numeric() => {
                let rest = &self.chars[self.at..];
                let length = rest.iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
                // `b"…"` and `br"…"` begin a string, not a word.
                let word: String = rest[..length].iter().collect();
                match (word.as_str(), self.peek(length)) {
                    ("b" | "c", '"' | '\'') => self.at += 1,
                    ("br" | "cr", '"' | '#') => self.at += 1,
                    _ => {
                        self.token(word);
                        self.at += length;
                    }
                }
            }
            (c, _) => {
                if !c.is_whitespace() {
                    self.token(c.to_string());
                }
                self.advance();
            }
        }
    }

    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn advance(&mut self) {
        self.line += usize::from(self.peek(0) == '\n');
        self.at += 1;
    }

    fn token(&mut self, text: String) {
        self.source.tokens.push(Token { line: self.line, text });
    }

    fn line_comment(&mut self) {
        let text: String = self.chars[self.at..].iter().take_while(|c| **c != '\n').collect();
        self.at += text.chars().count();
        if !text.starts_with("///") && !text.starts_with("//!") {
            self.source.comments.push((self.line, text[2..].trim().to_owned()));
        }
    }

    fn block_comment(&mut self) {
        let (from, first, mut depth) = (self.at, self.line, 0);
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.advance();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                break;
            }
        }
        let text: String = self.chars[from..self.at.min(self.chars.len())].iter().collect();
        if !text.starts_with("/**") && !text.starts_with("/*!") {
            let lines = text.lines().enumerate();
            let clean = |line: &str| line.trim_matches(|c: char| c.is_whitespace() || c == '*' || c == '/').to_owned();
            self.source.comments.extend(lines.map(|(index, line)| (first + index, clean(line))));
        }
    }

    fn string(&mut self) {
        self.advance();
        while self.at < self.chars.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.advance();
            }
            self.advance();
        }
        self.at += 1;
    }

    fn raw_hashes(&self) -> Option<usize> {
        let hashes = self.chars[self.at + 1..].iter().take_while(|c| **c == '#').count();
        (self.peek(1 + hashes) == '"').then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_hashes().unwrap_or(0);
        self.at += 2 + hashes;
        let ends = |reader: &Self| reader.peek(0) == '"' && (1..=hashes).all(|ahead| reader.peek(ahead) == '#');
        while self.at < self.chars.len() && !ends(self) {
            self.advance();
        }
        self.at += 1 + hashes;
    }

    /// A character, or the beginning of a lifetime.
    fn quote(&mut self) {
        if self.peek(1) == '\\' {
            self.at += 3;
            while self.at < self.chars.len() && self.peek(0) != '\'' {
                self.at += 1;
            }
            self.at += 1;
        } else if self.peek(2) == '\'' {
            self.advance();
            self.advance();
            self.at += 1;
        } else {
            self.at += 1;
        }
    }
}
