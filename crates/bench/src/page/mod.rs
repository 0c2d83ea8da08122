//! `--page N`: the page and the API over a large outbox, what they cost, and what they cost the relay beside them.

mod process;
mod report;
mod views;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_cli::context::Context;
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::{median, ratio};
use pillarbox_cli::output::Progress;
use pillarbox_core::port::Keep;
use pillarbox_engine::sink::NullSink;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::BenchArgs;
use super::bed::{Bed, ROUTE};
use super::by::{By, fill, options, per_second};

use process::Served;
pub(crate) use report::PageReport;
use report::{Beside, Idle, View};
use views::views;

/// The stream that the overview listens to. A stream without a view sends less, and costs less.
const STREAM: &str = "/live?view=overview&route=";
/// Open pages beside a relay.
const PAGES: usize = 10;
/// Stands in what a stream sends if a view is among it.
const SHOWS_A_VIEW: &str = "data-live=\"main\"";
/// What a stream may send before that.
const FIRST_LOOK_BYTES_MAX: usize = 1024 * 1024;

/// How long a process is watched. The pause after a look at the tables is a multiple of what the look took, so that over
/// many entries only a longer time has several looks in it.
const WATCHED: Duration = Duration::from_secs(60);
const WATCHED_OVER_FEW: Duration = Duration::from_secs(5);
/// From here on entries are many.
const MANY: u32 = 100_000;
/// What counts as no time of a processor, so that a ratio to it can be told.
const SHARE_MIN: f64 = 0.0001;
/// How long a page may take to answer until it counts as broken.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn measure(
    bed: &Bed,
    args: &BenchArgs,
    entries: u32,
    (url, folder): (&str, &Path),
    context: &Context,
) -> Result<PageReport, Fault> {
    let Some(spread) = bed.sql.spread_big else {
        return Err(Fault::usage("--page measures SQLite and PostgreSQL; give one of these as --database"));
    };
    let watched = if entries < MANY { WATCHED_OVER_FEW } else { WATCHED };
    let progress = Progress::new(context.out, "measuring", Some(u64::from(args.repeat) + 3));
    bed.load(bed.sql.load_big_settled, entries / 2).await?;
    bed.load(bed.sql.load_big_pending, entries - entries / 2).await?;
    bed.main.staging.execute(spread).await?;
    bed.settle_down().await?;
    progress.add(1);

    let large = Served::start("dashboard", &bed.big, url, folder, "large").await?;
    let mut views = views(&large, bed).await?;
    for _ in 0..args.repeat {
        for view in &mut views {
            view.ask(&large).await?;
        }
        progress.add(1);
    }
    large.stop();

    let beside = beside(bed, args, watched, url, folder).await?;
    progress.add(1);
    let relay = Served::start("relay", &bed.main, url, folder, "idle").await?;
    let idle = idle(&relay, watched).await;
    relay.stop();
    progress.add(1);
    let views = views.into_iter().map(|view| View::new(view.shown, &view.times)).collect();
    let database = bed.main.staging.name();
    Ok(PageReport { database, entries, repeat: args.repeat, views, beside, idle })
}

/// Drains with nobody watching, and with ten pages open, in turns.
async fn beside(
    bed: &Bed,
    args: &BenchArgs,
    time: Duration,
    url: &str,
    folder: &Path,
) -> Result<Beside, Fault> {
    let served = Served::start("dashboard", &bed.main, url, folder, "beside").await?;
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..args.repeat {
        alone.push(drain(bed, args).await?);
        let pages = open(&served, PAGES).await?;
        watched.push(drain(bed, args).await?);
        drop(pages);
    }
    let mut cost = [None; 2];
    for (count, cost) in [1, PAGES].into_iter().zip(&mut cost) {
        let pages = open(&served, count).await?;
        *cost = served.share_of_a_core(time).await;
        drop(pages);
    }
    served.stop();
    let [one_page, ten_pages] = cost;
    Ok(Beside {
        alone_per_second: median(&alone).round(),
        watched_per_second: median(&watched).round(),
        watched_to_alone: ratio(&watched, &alone),
        one_page,
        ten_pages,
        ten_to_one: one_page.zip(ten_pages).map(|(one, ten)| ten / one.max(SHARE_MIN)),
    })
}

async fn drain(bed: &Bed, args: &BenchArgs) -> Result<f64, Fault> {
    fill(bed, args).await?;
    let relay = By::Lanes.relay(&bed.main, Arc::new(NullSink), options(args, Keep::UntilPurged))?;
    Ok(per_second(&relay.drain().await?))
}

/// Opens so many streams of live updates, as open pages have, and reads what comes. Each sends the overview first.
async fn open(served: &Served, count: usize) -> Result<tokio::task::JoinSet<()>, Fault> {
    let mut pages = tokio::task::JoinSet::new();
    for _ in 0..count {
        let mut stream = tokio::time::timeout(PATIENCE, view(served))
            .await
            .map_err(|_| Fault::failed(format!("{STREAM}: no view after {} s", PATIENCE.as_secs())))??;
        pages.spawn(async move {
            let mut heard = vec![0; 16 * 1024];
            while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
        });
    }
    // The first look of a page is not what it costs while it is open.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(pages)
}

/// Opens a stream and reads until it has sent a view.
async fn view(served: &Served) -> Result<TcpStream, Fault> {
    let failed = |error: std::io::Error| Fault::failed(format!("{STREAM}: {error}"));
    let mut stream = served.ask(STREAM).await.map_err(failed)?;
    let (mut first, mut heard) = (String::new(), vec![0; 16 * 1024]);
    while !first.contains(SHOWS_A_VIEW) {
        let count = stream.read(&mut heard).await.map_err(failed)?;
        if count == 0 || first.len() > FIRST_LOOK_BYTES_MAX {
            return Err(Fault::failed(format!("{STREAM}: it sends no view: {first}")));
        }
        first.push_str(&String::from_utf8_lossy(&heard[..count]));
    }
    Ok(stream)
}

async fn idle(relay: &Served, time: Duration) -> Idle {
    // Starting is not idling.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let share_of_a_core = relay.share_of_a_core(time).await;
    Idle { share_of_a_core, memory_bytes: relay.memory() }
}

impl Served {
    /// Sends a request over a connection of its own.
    async fn ask(&self, path: &str) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address()).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            self.address()
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }
}

/// The route that a served relay has.
fn route() -> String {
    format!("[routes.{ROUTE}]\nto = \"null:\"\norder = \"key\"\n")
}
