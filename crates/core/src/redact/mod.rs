//! Keeping secrets out of whatever is stored, logged or shown.
//!
//! The rule of thumb in here: when in doubt, too much is masked. A text that lost a word is a nuisance, a
//! password in a log is an incident.

mod name;
mod text;
mod url;

#[cfg(test)]
mod tests;

/// What stands in the place of a secret.
const MASK: &str = "***";

/// Masks the password and every token-like query value of a URL. Works on malformed URLs too.
///
/// ```
/// # use pillarbox_core::redact_url;
/// assert_eq!(redact_url("amqp://app:s3cret@mq:5672/%2f?token=t"), "amqp://app:***@mq:5672/%2f?token=***");
/// ```
#[must_use]
pub fn redact_url(url: &str) -> String {
    until_stable(url, url::pass)
}

/// The same for a URL that cannot be read as one: nothing of what stands before its `@` is shown, because nobody knows
/// which part of it is the password.
///
/// ```
/// # use pillarbox_core::redact_refused_url;
/// assert_eq!(redact_refused_url("postgres://s3cret@db:port/shop"), "postgres://***@db:port/shop");
/// ```
#[must_use]
pub fn redact_refused_url(url: &str) -> String {
    until_stable(url, url::refused)
}

/// Masks what looks like a secret inside any text: URLs with credentials, `password=…`, `token: …`,
/// `Bearer …`, `whsec_…` and other well-known kinds of keys, private keys.
///
/// ```
/// # use pillarbox_core::redact;
/// assert_eq!(redact("no route to amqp://app:s3cret@mq/: timed out"), "no route to amqp://app:***@mq/: timed out");
/// ```
#[must_use]
pub fn redact(text: &str) -> String {
    until_stable(text, text::pass)
}

/// Masking can join what a secret kept apart, and so show the next one: the passes go on until one changes
/// nothing. So masking again never changes anything. It ends because each pass leaves fewer unmasked characters.
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
