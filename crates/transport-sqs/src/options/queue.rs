//! Names of queues: what SQS allows, and what of an entry may be in one.

use std::borrow::Cow;

use pillarbox_core::{Error, Result};
use url::Url;

/// Longest name of a queue, in characters, the ending included.
const NAME_CHARS_MAX: usize = 80;
/// How the name of a FIFO queue ends.
const FIFO: &str = ".fifo";

/// Whether a queue of this name is a FIFO queue.
pub(crate) fn is_fifo(name: &str) -> bool {
    name.ends_with(FIFO)
}

/// Refuses what can be no queue's name.
pub(crate) fn check_queue(name: &str) -> Result<()> {
    let bare = name.strip_suffix(FIFO).unwrap_or(name);
    if bare.is_empty() || name.len() > NAME_CHARS_MAX || !bare.bytes().all(is_allowed) {
        return Err(Error::invalid(format!(
            "{name:?} is no queue's name: 1 to {NAME_CHARS_MAX} letters, digits, - and _, with .fifo behind them for a \
             FIFO queue"
        )));
    }
    Ok(())
}

/// Refuses a template whose own text can be in no queue's name.
pub(crate) fn check_template(template: &str) -> Result<()> {
    let text =
        ["{type}", "{key}", "{route}"].iter().fold(template.to_owned(), |text, name| text.replace(name, "x"));
    let bare = text.strip_suffix(FIFO).unwrap_or(&text);
    if bare.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{template:?} can be no queue's name: only letters, digits, - and _, with .fifo at the end for a FIFO queue"
    )))
}

/// What of an entry may be in a queue's name: everything else becomes `_`.
pub(crate) fn escape(value: &str) -> Cow<'_, str> {
    if value.bytes().all(is_allowed) {
        return Cow::Borrowed(value);
    }
    let allowed = |c: char| if u8::try_from(c).is_ok_and(is_allowed) { c } else { '_' };
    Cow::Owned(value.chars().map(allowed).collect())
}

/// The path of a URL, without its percent-encoding.
pub(crate) fn path(url: &Url) -> Result<String> {
    let path = url.path().strip_prefix('/').unwrap_or(url.path());
    decode(path).ok_or_else(|| Error::invalid("the queue is not UTF-8"))
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Undoes percent-encoding, which URLs need for braces. `None`: it is malformed, or not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
