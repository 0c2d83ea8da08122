//! The sinks that need no broker: handlers of this process, files, standard output, and a sink that keeps
//! nothing.

mod cause;
mod handlers;
mod handling;
mod lines;
mod null;

pub use handlers::Handlers;
pub use handling::{Handled, HandlerError, Handling};
pub use lines::{FileSink, StdoutSink};
pub use null::NullSink;
