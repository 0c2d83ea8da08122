//! Asking before something that cannot be taken back.

use std::io::{self, BufRead, IsTerminal, Write};

use super::Output;
use crate::fault::Fault;

/// Says what will happen, and goes on only with `--yes`, or with a `y` typed on a terminal.
pub(crate) fn confirm(out: Output, what: &str, yes: bool) -> Result<(), Fault> {
    if yes {
        out.say(what);
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Fault::usage(format!(
            "{what}, but there is no terminal to ask on. Add --yes to do it, or --dry-run to only count"
        )));
    }
    let _ = write!(io::stderr().lock(), "{what}. Continue? [y/N] ");
    let _ = io::stderr().lock().flush();
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Fault::failed(format!("cannot read the answer: {error}")))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Fault::failed("nothing was changed")),
    }
}
