//! Secrets in prose: one walk over the words of a text.

use super::{MASK, name, url};

const BLANKS: [char; 2] = [' ', '\t'];

pub(super) fn pass(text: &str) -> String {
    let out = String::with_capacity(text.len() + MASK.len());
    let mut scan = Scan { text, at: 0, out, url_end: 0, no_at_sign_until: 0 };
    while scan.at < text.len() {
        scan.step();
    }
    scan.out
}

/// The walk over a text. It looks only for ASCII, so every cut is between characters.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    out: String,
    /// The end of the URL that the walk is in.
    url_end: usize,
    /// Up to here no `@` follows in the same word. Remembering this keeps the walk linear.
    no_at_sign_until: usize,
}

impl<'a> Scan<'a> {
    /// Handles the word here, or the one character that is in no word.
    fn step(&mut self) {
        let rest = self.rest();
        let word = prefix(rest, is_word);
        let after = &rest[word.len()..];
        let in_url = self.at < self.url_end;
        if word.is_empty() {
            return self.keep(rest.chars().next().map_or(rest.len(), char::len_utf8));
        }
        if let Some(len) = private_key_header_len(rest) {
            self.keep(len);
            return self.mask(self.rest().find("-----END").unwrap_or(self.rest().len()));
        }
        if after.starts_with("://") {
            return self.url(word);
        }
        if (name::is_secret(word) || in_url && name::is_secret_in_query(word))
            && let Some(gap) = assignment_len(after)
        {
            self.keep(word.len() + gap);
            return self.value(word, in_url);
        }
        if word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic") {
            return self.scheme(word);
        }
        if let Some(start) = name::prefixed_secret(word, || prefix(rest, is_token).len()) {
            self.keep(start);
            return self.token();
        }
        self.keep(word.len());
        // `user:password@host`, which some drivers take without a scheme.
        if after.starts_with(':')
            && let Some(len) = self.at_sign(1)
        {
            self.keep(1);
            self.mask(len - 1);
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn keep(&mut self, len: usize) {
        self.out.push_str(&self.text[self.at..self.at + len]);
        self.at += len;
    }

    fn mask(&mut self, len: usize) {
        if len > 0 {
            self.out.push_str(MASK);
            self.at += len;
        }
    }

    /// Masks the credentials of a URL, which in prose ends at a blank. The walk then goes on inside the URL.
    fn url(&mut self, scheme: &str) {
        self.keep(scheme.len() + "://".len());
        // A URL inside a URL ends where that one does: looking for its end again would make the walk quadratic.
        if self.at >= self.url_end {
            self.url_end = self.at + prefix(self.rest(), |c| !c.is_ascii_whitespace()).len();
        }
        let rest = &self.text[self.at..self.url_end];
        if self.at_sign(0).is_some() {
            let left = url::userinfo(scheme, rest, &mut self.out).len();
            self.at = self.url_end - left;
        }
    }

    /// The value after a secret's name.
    fn value(&mut self, name: &str, in_url: bool) {
        let value = self.rest();
        if name::is_secret_line(name) {
            return self.mask(prefix(value, |c| c != '\n').len());
        }
        if let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            self.keep(1);
            return self.mask(quoted_len(&value[1..], quote));
        }
        self.mask(bare_len(value, in_url));
    }

    /// `Bearer` with its token, and `Basic` with something that decodes to `user:password`.
    fn scheme(&mut self, word: &str) {
        self.keep(word.len());
        let rest = self.rest();
        let token_start = rest.len() - rest.trim_start_matches(BLANKS).len();
        let token = prefix(&rest[token_start..], is_token);
        if token_start > 0 && (word.eq_ignore_ascii_case("bearer") || name::is_basic_credentials(token)) {
            self.keep(token_start);
            self.token();
        }
    }

    /// Masks a token. If the token ends like a secret's name, as in `Bearer token: x`, its value follows.
    fn token(&mut self) {
        let in_url = self.at < self.url_end;
        let token = prefix(self.rest(), is_token);
        let bare = token.trim_end_matches('=');
        let name = &bare[bare.rfind(|c| !is_word(c)).map_or(0, |at| at + 1)..];
        match assignment_len(&self.rest()[bare.len()..]).filter(|_| name::is_secret(name)) {
            Some(gap) => {
                self.mask(bare.len());
                self.keep(gap);
                self.value(name, in_url);
            }
            None => self.mask(token.len()),
        }
    }

    /// How far from here the last `@` of this blank-separated word is, if it is further than `min`.
    fn at_sign(&mut self, min: usize) -> Option<usize> {
        if self.at < self.no_at_sign_until {
            return None;
        }
        let word = prefix(self.rest(), |c| !c.is_ascii_whitespace());
        let found = word.rfind('@');
        if found.is_none() {
            self.no_at_sign_until = self.at + word.len();
        }
        found.filter(|len| *len > min)
    }
}

fn prefix(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !belongs(c)).unwrap_or(text.len())]
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Whether a character belongs to a token. The mask does too, so that masking again finds the same token.
fn is_token(c: char) -> bool {
    is_word(c) || matches!(c, '+' | '/' | '=' | '~' | '*')
}

/// The length of `=`, `:` or `=>` after a name, with its blanks and the quote that closes the name.
fn assignment_len(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\\').unwrap_or(text);
    let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start_matches(BLANKS);
    let rest = rest.strip_prefix("=>").or_else(|| rest.strip_prefix(['=', ':']))?;
    Some(text.len() - rest.trim_start_matches(BLANKS).len())
}

/// The length up to the closing quote that is not escaped, or to the end.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return at;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// The length up to a blank, or in a URL up to the next parameter. Quoted parts belong to the value, as in
/// `Some("two words")`. So does an assignment inside of it, as in `password=token: x`.
fn bare_len(text: &str, in_url: bool) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_ascii_whitespace() {
            let next = text[at..].trim_start_matches(BLANKS);
            let assigns = text[..at].ends_with(['=', ':', '>']) || next.starts_with(['=', ':']);
            if !assigns || next.starts_with(|c: char| c.is_ascii_whitespace()) || next.is_empty() {
                break;
            }
            at = text.len() - next.len();
            continue;
        }
        if in_url && c == '&' {
            break;
        }
        at += c.len_utf8();
        if c == '"' {
            at += quoted_len(&text[at..], '"');
            at += usize::from(text[at..].starts_with('"'));
        }
    }
    at
}

fn private_key_header_len(text: &str) -> Option<usize> {
    let label = text.strip_prefix("-----BEGIN ")?;
    let end = label.find("-----")?;
    label[..end].ends_with("PRIVATE KEY").then(|| "-----BEGIN ".len() + end + "-----".len())
}
