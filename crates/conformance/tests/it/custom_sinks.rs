//! The suite for sinks on the in-memory sink and on the sinks of the engine, each as a user would plug it in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pillarbox_conformance::sink::EVENT_TYPES;
use pillarbox_conformance::sink::context_of_line;
use pillarbox_conformance::{Received, Refusal, SinkHarness};
use pillarbox_core::port::{Sink, SinkCapabilities};
use pillarbox_core::{Entry, Event};
use pillarbox_engine::sink::{FileSink, Handlers, NullSink};
use pillarbox_testkit::MemorySink;

fn received(entry: &Entry) -> Received {
    Received {
        event_id: entry.event_id,
        event_type: entry.event_type.clone(),
        key: entry.key.clone(),
        payload: entry.payload.clone(),
    }
}

mod memory {
    use super::*;

    struct Harness(MemorySink);

    #[async_trait]
    impl SinkHarness for Harness {
        fn name() -> &'static str {
            "memory sink"
        }

        async fn start() -> Self {
            let sink = MemorySink::new();
            let mut capabilities = SinkCapabilities::default();
            capabilities.payload_bytes_max = Some(4096);
            sink.set_capabilities(capabilities);
            Self(sink)
        }

        fn sink(&self) -> Arc<dyn Sink> {
            Arc::new(self.0.clone())
        }

        async fn received(&self) -> Vec<Received> {
            self.0.received().iter().map(received).collect()
        }
    }

    pillarbox_conformance::sink_conformance!(Harness);
}

mod handlers {
    use super::*;

    struct Harness {
        sink: Arc<Handlers>,
        handled: Arc<Mutex<Vec<Received>>>,
    }

    #[async_trait]
    impl SinkHarness for Harness {
        fn name() -> &'static str {
            "handlers"
        }

        async fn start() -> Self {
            let handled: Arc<Mutex<Vec<Received>>> = Arc::default();
            let sink = EVENT_TYPES.into_iter().fold(Handlers::new(), |handlers, name| {
                let handled = Arc::clone(&handled);
                let handler = move |handling: pillarbox_engine::sink::Handling| {
                    handled.lock().unwrap().push(received(handling.entry()));
                    async { Ok(()) }
                };
                handlers.on(name, handler).unwrap()
            });
            Self { sink: Arc::new(sink), handled }
        }

        fn sink(&self) -> Arc<dyn Sink> {
            Arc::clone(&self.sink) as Arc<dyn Sink>
        }

        async fn received(&self) -> Vec<Received> {
            self.handled.lock().unwrap().clone()
        }
    }

    pillarbox_conformance::sink_conformance!(Harness);
}

mod file {
    use super::*;

    struct Harness {
        directory: tempfile::TempDir,
        sink: FileSink,
    }

    #[async_trait]
    impl SinkHarness for Harness {
        fn name() -> &'static str {
            "file"
        }

        async fn start() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let sink = FileSink::open(directory.path().join("events.ndjson")).unwrap();
            Self { directory, sink }
        }

        fn sink(&self) -> Arc<dyn Sink> {
            Arc::new(self.sink.clone())
        }

        async fn received(&self) -> Vec<Received> {
            let text = std::fs::read_to_string(self.directory.path().join("events.ndjson")).unwrap();
            text.lines().map(Received::of_line).collect()
        }

        async fn contexts(&self) -> Option<Vec<BTreeMap<String, String>>> {
            let text = std::fs::read_to_string(self.directory.path().join("events.ndjson")).unwrap();
            Some(text.lines().map(context_of_line).collect())
        }

        /// A file on a full disk takes nothing, whatever it is.
        async fn refusal(&self) -> Option<Refusal> {
            if !cfg!(target_os = "linux") {
                return None;
            }
            let sink = Arc::new(FileSink::open("/dev/full").unwrap());
            let event = Event::new(EVENT_TYPES[0], "{}");
            Some(Refusal { sink, taken: event.clone(), refused: event })
        }

        fn keeps_blanks(&self) -> bool {
            false
        }
    }

    pillarbox_conformance::sink_conformance!(Harness);
}

mod null {
    use super::*;

    struct Harness;

    #[async_trait]
    impl SinkHarness for Harness {
        fn name() -> &'static str {
            "null"
        }

        async fn start() -> Self {
            Self
        }

        fn sink(&self) -> Arc<dyn Sink> {
            Arc::new(NullSink)
        }

        async fn received(&self) -> Vec<Received> {
            vec![]
        }

        fn keeps(&self) -> bool {
            false
        }
    }

    pillarbox_conformance::sink_conformance!(Harness);
}
