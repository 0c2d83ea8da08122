//! `pillarbox demo`: the whole flow in one process, with faults, and the check that nothing went wrong.

mod check;
mod consumer;
mod page;
mod producer;
mod random;
mod relays;
mod report;
mod sink;
mod state;

use clap::Args;

use crate::context::Context;
use crate::fault::Fault;
use crate::output::Progress;

use state::Demo;

const EXAMPLES: &str = "\
Producers write orders and stage their events in the same transactions, a fifth of which roll back. Two \
relays deliver to a destination that fails, loses confirmations and is down for a while. One relay is killed \
during a delivery. A consumer applies each event through the inbox. At the end the demo counts everything.

Without --database it works in a SQLite file in a temporary directory and ignores DATABASE_URL. In a named \
database it works in its own tables (pillarbox_demo_…), which it keeps.

Examples:
  pillarbox demo
  pillarbox demo --events 5000 --seed 7 --json";

/// How much to show.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// How many events the producers try to stage
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    events: u64,
    /// Exit when the check is done. Otherwise, on a terminal, the live page stays open until Ctrl-C
    #[arg(long)]
    exit: bool,
    /// The seed of the random faults; the same seed gives the same mix of faults [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) async fn run(args: &DemoArgs, context: &Context) -> Result<(), Fault> {
    let seed = args.seed.unwrap_or_else(|| pillarbox_host::random_u64() >> 32);
    let folder = tempfile::tempdir()
        .map_err(|error| Fault::failed(format!("cannot create a temporary directory: {error}")))?;
    let url = match context.database_option() {
        Some(url) => url.to_owned(),
        None => format!("sqlite://{}", folder.path().join("demo.db").display()),
    };
    let demo = Demo::create(&url, args.events, seed).await?;
    let started = std::time::Instant::now();
    let progress = Progress::new(context.out, "demo", Some(args.events));
    let page = page::open(&demo, args.exit, context).await?;
    let flow = flow(&demo);
    // In a box, so that it can be dropped before the database is closed: that waits for connections, and the page may have
    // one of them.
    let mut serving = Box::pin(page::serve(page.as_ref()));
    tokio::pin!(flow);
    loop {
        tokio::select! {
            result = &mut flow => break result?,
            () = &mut serving => {}
            () = tokio::time::sleep(state::TICK) => progress.set(demo.figures.settled()),
        }
    }
    drop(progress);
    let found = check::check(&demo).await?;
    let report = report::Report::new(&demo, &found, started.elapsed());
    if context.out.json {
        context.out.json(&report)?;
    } else {
        context.out.data(&report)?;
    }
    if let Some(page) = &page {
        page.stay(&mut serving, context).await?;
    }
    drop(serving);
    demo.database.staging.close().await;
    found.verdict()
}

// One task for everybody: producers, relays and the consumer take turns on it.
async fn flow(demo: &Demo) -> Result<(), Fault> {
    let (queue, messages) = tokio::sync::mpsc::unbounded_channel();
    let outbox_side = async {
        let destination = sink::Destination::new(demo, queue);
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let relays = relays::run(demo, destination, stopped);
        let producing = async {
            producer::run(demo).await?;
            demo.quiet().await?;
            stop.send_replace(true);
            Ok::<_, Fault>(())
        };
        tokio::try_join!(relays, producing).map(|_| ())
    };
    tokio::try_join!(outbox_side, consumer::run(demo, messages)).map(|_| ())
}
