//! Which names have secrets as values, and how well-known secrets look.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Parts of names whose values are secrets, wherever they appear.
const PARTS: [&str; 16] = [
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
    "account_key",
];
/// Whole names whose values are secrets.
const NAMES: [&str; 4] = ["pass", "sig", "auth", "accountkey"];
/// Whole names whose values are secrets in the query of a URL. In prose, `key: o-7` is an ordering key.
const QUERY_NAMES: [&str; 2] = ["key", "sas"];
/// Headers whose whole line is a secret.
const LINES: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
/// How well-known secrets begin.
const PREFIXES: [&str; 17] = [
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
    "ASIA",
    "eyJ",
];
/// Shortest text after such a beginning that makes it a secret.
const PREFIXED_LEN_MIN: usize = 8;

pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let bare = name.trim_matches(['-', '_', '.']);
    PARTS.iter().any(|part| name.contains(part)) || NAMES.contains(&bare) || LINES.contains(&bare)
}

pub(super) fn is_secret_in_query(name: &str) -> bool {
    is_secret(name) || QUERY_NAMES.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

pub(super) fn is_secret_line(name: &str) -> bool {
    LINES.iter().any(|line| name.eq_ignore_ascii_case(line))
}

/// Where the secret part of a word starts, if the word or one of its parts begins like a well-known secret.
/// `token_len` is the length of the word together with the characters after it that may belong to a secret.
pub(super) fn prefixed_secret(word: &str, token_len: impl Fn() -> usize) -> Option<usize> {
    let mut starts = PREFIXES.iter().flat_map(|prefix| {
        let parts = word.match_indices(prefix).map(|(at, _)| at);
        parts
            .filter(|at| !word[..*at].ends_with(|c: char| c.is_ascii_alphanumeric()))
            .map(|at| at + prefix.len())
    });
    starts.find(|start| token_len() - start >= PREFIXED_LEN_MIN)
}

/// Whether this is what follows `Basic` in an authorization header: base64 of `user:password`.
pub(super) fn is_basic_credentials(token: &str) -> bool {
    STANDARD_NO_PAD.decode(token.trim_end_matches('=')).is_ok_and(|bytes| bytes.contains(&b':'))
}
