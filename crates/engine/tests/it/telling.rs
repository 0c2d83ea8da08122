//! What a relay writes to the log.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use pillarbox_core::{Event, Outcome};
use pillarbox_testkit::{Reply, Which};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use crate::rig::{Rig, options};

/// Keeps the lines of errors.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

struct ErrorText(String);

impl Visit for ErrorText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = ErrorText(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_pile_of_equal_deaths_is_one_line_with_its_count() {
    let rig = Rig::new();
    rig.stage_many(40).await;
    let other = rig.stage(Event::new("bad", "{}")).await;
    rig.sink.on(Which::Any, Reply::Answer(Outcome::rejected("too_large", "over the limit")));
    rig.sink.on(Which::Event(other), Reply::Answer(Outcome::rejected("unroutable", "no queue")));
    let errors = Errors::default();
    let listening = tracing::subscriber::set_default(errors.clone());
    let relay = rig.relay(options());
    assert_eq!(relay.run_once().await.unwrap().dead, 41);
    drop(listening);
    let lines = errors.0.lock().unwrap().clone();
    let of = |code: &str| lines.iter().filter(|line| line.contains(code)).cloned().collect::<Vec<_>>();
    let (large, unroutable) = (of("rejected/too_large"), of("rejected/unroutable"));
    assert!(large.len() < 5 && !large.is_empty(), "{lines:#?}");
    assert_eq!((unroutable.len(), lines.len()), (1, large.len() + 1), "{lines:#?}");
    assert!(
        unroutable[0].contains(&other.to_string()) && unroutable[0].contains("entries=1 "),
        "{unroutable:?}"
    );
    let counted: usize = large
        .iter()
        .map(|line| {
            line.split("entries=").nth(1).unwrap().split(' ').next().unwrap().parse::<usize>().unwrap()
        })
        .sum();
    assert_eq!(counted, 40);
}
