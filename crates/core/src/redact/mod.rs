//! Keeping secrets out of everything that is stored, logged or shown.
//!
//! When in doubt, too much is masked. A text that lost a word is a nuisance; a password in a log is an incident.

mod name;
mod text;
mod url;

#[cfg(test)]
mod tests;

/// The text that replaces a secret.
const MASK: &str = "***";

/// Masks the password and every token-like query value of a URL. It works on malformed URLs too.
///
/// ```
/// # use pillarbox_core::redact_url;
/// assert_eq!(redact_url("amqp://app:s3cret@mq:5672/%2f?token=t"), "amqp://app:***@mq:5672/%2f?token=***");
/// ```
#[must_use]
pub fn redact_url(url: &str) -> String {
    until_stable(url, url::pass)
}

/// Masks a URL that cannot be parsed. Nothing before its `@` is shown, because it is not known which part is the
/// password.
///
/// ```
/// # use pillarbox_core::redact_refused_url;
/// assert_eq!(redact_refused_url("postgres://s3cret@db:port/shop"), "postgres://***@db:port/shop");
/// ```
#[must_use]
pub fn redact_refused_url(url: &str) -> String {
    until_stable(url, url::refused)
}

/// Masks everything in a text that looks like a secret: URLs with credentials, `password=…`, `token: …`, `Bearer
/// …`, `whsec_…` and other well-known kinds of keys, and private keys.
///
/// ```
/// # use pillarbox_core::redact;
/// assert_eq!(redact("no route to amqp://app:s3cret@mq/: timed out"), "no route to amqp://app:***@mq/: timed out");
/// ```
#[must_use]
pub fn redact(text: &str) -> String {
    until_stable(text, text::pass)
}

/// Repeats the pass until it changes nothing. Masking can join parts that a secret kept apart, and so reveal the
/// next secret. So masking again never changes anything. It ends, because each pass leaves fewer unmasked
/// characters.
fn until_stable(text: &str, pass: fn(&str) -> String) -> String {
    let mut before = pass(text);
    loop {
        let after = pass(&before);
        if after == before {
            return after;
        }
        before = after;
    }
}
