//! How far a drain has come, on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use pillarbox_engine::Handle;

use crate::output::{Output, Progress};

/// How often the figure is drawn.
const INTERVAL: Duration = Duration::from_millis(100);

/// Shows what the relays have delivered, until it is dropped.
pub(crate) async fn show(out: Output, handles: &[Handle]) {
    if out.quiet || !std::io::stderr().is_terminal() {
        std::future::pending::<()>().await;
    }
    let progress = Progress::new(out, "delivered", None);
    loop {
        progress.set(handles.iter().map(|handle| handle.state().tally.delivered).sum());
        tokio::time::sleep(INTERVAL).await;
    }
}
