//! The sinks that need no broker: handlers of this process, files, standard output, and nothing at all.

mod handlers;
mod lines;
mod null;

pub use handlers::{HandlerError, Handlers, Handling};
pub use lines::{FileSink, StdoutSink};
pub use null::NullSink;
