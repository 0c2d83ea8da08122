//! Keeping secrets out of whatever is stored, logged or shown.
//!
//! The rule of thumb in here: when in doubt, too much is masked. A text that lost a word is a nuisance, a
//! password in a log is an incident. Masking what was masked changes nothing.

const MASK: &str = "***";

/// Parts of names whose values are secrets, wherever they appear.
const SECRET_PARTS: [&str; 15] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "private_key",
    "signature",
    "credential",
];
/// Whole names whose values are secrets.
const SECRET_NAMES: [&str; 3] = ["pass", "sig", "auth"];
/// Whole names whose values are secrets in the query of a URL. In prose, `key: o-7` is an ordering key.
const SECRET_QUERY_NAMES: [&str; 2] = ["key", "sas"];
/// Headers whose whole line is a secret.
const SECRET_LINES: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
/// How well-known secrets begin.
const SECRET_PREFIXES: [&str; 16] = [
    "whsec_",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "eyJ",
];
/// Shortest rest of a token that a prefix makes a secret of.
const TOKEN_REST_MIN: usize = 8;

/// Masks the password and every token-like query value of a URL. Works on malformed URLs too.
///
/// ```
/// # use pillarbox_core::redact_url;
/// assert_eq!(redact_url("amqp://app:s3cret@mq:5672/%2f?token=t"), "amqp://app:***@mq:5672/%2f?token=***");
/// ```
#[must_use]
pub fn redact_url(url: &str) -> String {
    let (scheme, rest) = match url.find("://") {
        Some(at) => url.split_at(at + 3),
        None => ("", url),
    };
    let mut out = String::with_capacity(url.len());
    out.push_str(scheme);
    let rest = redact_userinfo(scheme, rest, &mut out);
    let query = rest.find(['?', '#']).unwrap_or(rest.len());
    out.push_str(&rest[..query]);
    redact_query(&rest[query..], &mut out);
    out
}

/// Writes user and masked password; gives back what follows them.
fn redact_userinfo<'a>(scheme: &str, rest: &'a str, out: &mut String) -> &'a str {
    // The last `@` ends the password, even when it stands in what a parser would take for path or query:
    // people forget to escape `@`, `/` and `?` in passwords.
    if let Some(end) = rest.rfind('@')
        && let Some(colon) = rest[..end].find(':')
    {
        out.push_str(&rest[..=colon]);
        out.push_str(MASK);
        return &rest[end..];
    }
    // Over HTTP, a user without a password is a token; to a database, it is a name that people want to see.
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if scheme.to_ascii_lowercase().starts_with("http")
        && let Some(end) = rest[..authority].rfind('@')
    {
        out.push_str(MASK);
        return &rest[end..];
    }
    rest
}

fn redact_query(query: &str, out: &mut String) {
    for pair in query.split_inclusive(['?', '&', ';', '#']) {
        let separator =
            pair.ends_with(['?', '&', ';', '#']).then(|| &pair[pair.len() - 1..]).unwrap_or_default();
        match pair.split_once('=') {
            Some((name, value)) if value != separator && is_secret_query_name(name) => {
                out.push_str(name);
                out.push('=');
                out.push_str(MASK);
                out.push_str(separator);
            }
            _ => out.push_str(pair),
        }
    }
}

fn is_secret_query_name(name: &str) -> bool {
    is_secret_name(name) || SECRET_QUERY_NAMES.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let bare = name.trim_matches(['-', '_', '.']);
    SECRET_PARTS.iter().any(|part| name.contains(part))
        || SECRET_NAMES.contains(&bare)
        || SECRET_LINES.contains(&bare)
}

/// Masks what looks like a secret inside any text: URLs with credentials, `password=…`, `token: …`,
/// `Bearer …`, well-known kinds of keys, private keys.
#[must_use]
pub fn redact(text: &str) -> String {
    let mut scan = Scan { text, at: 0, out: String::with_capacity(text.len()), no_at_sign_until: 0 };
    while scan.at < text.len() {
        scan.step();
    }
    scan.out
}

/// A walk over a text, word by word. Everything it looks for is ASCII, so every cut is between characters.
struct Scan<'a> {
    text: &'a str,
    at: usize,
    out: String,
    /// Up to here it is known that no `@` follows in the same word; keeps the walk linear.
    no_at_sign_until: usize,
}

impl<'a> Scan<'a> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let word = word_of(rest);
        if word.is_empty() {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            return self.keep(next);
        }
        if let Some(len) = private_key_header(rest) {
            self.keep(len);
            let body = &self.text[self.at..];
            return self.mask(body.find("-----END").unwrap_or(body.len()));
        }
        if rest[word.len()..].starts_with("://") {
            let url = &rest[..url_len(rest)];
            self.out.push_str(&redact_url(url));
            self.at += url.len();
            return;
        }
        if is_secret_name(word)
            && let Some(gap) = assignment_len(&rest[word.len()..])
        {
            return self.pair(word, gap);
        }
        if word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic") {
            return self.scheme(word);
        }
        if let Some(start) = secret_prefix_end(rest, word) {
            self.keep(start);
            return self.mask(token_of(&self.text[self.at..]).len());
        }
        if rest[word.len()..].starts_with(':')
            && let Some(end) = self.at_sign(word.len() + 1)
        {
            self.keep(word.len() + 1);
            return self.mask(end - self.at);
        }
        self.keep(word.len());
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

    /// `password = value`: `gap` is everything between name and value.
    fn pair(&mut self, name: &str, gap: usize) {
        self.keep(name.len() + gap);
        let value = &self.text[self.at..];
        if SECRET_LINES.iter().any(|line| name.eq_ignore_ascii_case(line)) {
            return self.mask(value.find('\n').unwrap_or(value.len()));
        }
        if let Some(quote) = value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            self.keep(1);
            return self.mask(quoted_len(&value[1..], quote));
        }
        self.mask(bare_value_len(value));
    }

    /// `Bearer token`, and `Basic` with something that decodes to `user:password`.
    fn scheme(&mut self, word: &str) {
        self.keep(word.len());
        let rest = &self.text[self.at..];
        let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let token = token_of(&rest[spaces..]);
        let secret = word.eq_ignore_ascii_case("bearer") || is_basic_credentials(token);
        if spaces > 0 && !token.is_empty() && secret {
            self.keep(spaces);
            self.mask(token.len());
        }
    }

    /// Where the last `@` of this blank-separated word is, at or after `skip` bytes from here.
    fn at_sign(&mut self, skip: usize) -> Option<usize> {
        let from = self.at + skip;
        if from < self.no_at_sign_until {
            return None;
        }
        let rest = &self.text[from..];
        let len = rest.find(|c: char| c.is_ascii_whitespace() || c == '"').unwrap_or(rest.len());
        let found = rest[..len].rfind('@').filter(|at| *at > 0);
        if found.is_none() {
            self.no_at_sign_until = from + len;
        }
        found.map(|at| from + at)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn word_of(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

/// What a token may be made of; the mask counts too, so that masking again finds the same token.
fn token_of(text: &str) -> &str {
    let in_token = |c: char| is_word(c) || matches!(c, '+' | '/' | '=' | '~' | '*');
    &text[..text.find(|c| !in_token(c)).unwrap_or(text.len())]
}

/// A URL in prose ends at a blank, at an angle bracket, or at a quote that is not escaped.
fn url_len(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c.is_ascii_whitespace() || matches!(c, '<' | '>' | '`') || (c == '"' && !escaped) {
            return at;
        }
        escaped = c == '\\';
    }
    text.len()
}

/// The length of `=`, `:` or `=>` after a name, with its blanks and a quote that closes the name.
fn assignment_len(text: &str) -> Option<usize> {
    let blank = [' ', '\t'];
    let mut rest = text.strip_prefix('\\').unwrap_or(text);
    rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest).trim_start_matches(blank);
    rest = rest.strip_prefix("=>").or_else(|| rest.strip_prefix(['=', ':']))?.trim_start_matches(blank);
    Some(text.len() - rest.len())
}

/// Up to the closing quote that is not escaped, or to the end.
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

/// Up to a blank, jumping over quoted parts: `Some("two words")` is one value.
fn bare_value_len(text: &str) -> usize {
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_ascii_whitespace() {
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

fn private_key_header(text: &str) -> Option<usize> {
    let label = text.strip_prefix("-----BEGIN ")?;
    let end = label.find("-----")?;
    label[..end].ends_with("PRIVATE KEY").then(|| "-----BEGIN ".len() + end + "-----".len())
}

/// Where the secret part of this word starts, if it begins like a well-known secret.
fn secret_prefix_end(rest: &str, word: &str) -> Option<usize> {
    SECRET_PREFIXES.iter().find_map(|prefix| {
        let at = word.find(prefix)?;
        let starts_part = !word[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        let start = at + prefix.len();
        (starts_part && word.len() - start >= TOKEN_REST_MIN.min(token_of(&rest[start..]).len()).max(1))
            .then_some(start)
            .filter(|start| token_of(&rest[*start..]).len() >= TOKEN_REST_MIN)
    })
}

fn is_basic_credentials(token: &str) -> bool {
    use base64::Engine as _;
    let token = token.trim_end_matches('=');
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(token).is_ok_and(|bytes| bytes.contains(&b':'))
}
