//! What an operator opens, and how long it takes until the first byte comes.

use std::time::{Duration, Instant};

use pillarbox_cli::fault::Fault;
use pillarbox_core::{Reference, RouteName, Saga, SagaId, Step};
use serde::Deserialize;
use tokio::io::AsyncReadExt;

use super::process::Served;
use super::{Bed, PATIENCE};

/// The first page of each list, the filters, and the API that feeds them.
const VIEWS: [&str; 32] = [
    "/",
    "/routes/bench",
    "/routes/bench?lanes",
    "/entries",
    "/entries?status=pending",
    "/entries?status=retrying",
    "/entries?status=delivered",
    "/entries?status=dead",
    "/entries?status=blocked",
    "/entries?key=k-7",
    "/entries?type=bench.event",
    "/entries?type=nobody.knows",
    "/entries?tenant=t-7",
    "/entries?since=1h",
    "/entries?status=dead&since=1h",
    "/entries?status=dead&error=failed",
    // Leads to the list with these filters.
    "/entries?q=status:dead+type:bench.event",
    "/entries?status=dead&type=bench.event",
    "/dead",
    "/sagas",
    "/relays",
    "/inbox",
    "/audit",
    DOCTOR,
    "/api/v1/status",
    FIRST_PAGE,
    "/api/v1/groups?status=dead",
    "/api/v1/routes/bench/waits",
    "/api/v1/routes/bench/lanes",
    "/api/v1/audit?limit=1000",
    "/metrics",
    "/readyz",
];
/// The answer that tells where the second page begins.
const FIRST_PAGE: &str = "/api/v1/entries?route=bench&limit=100";
/// It examines the whole database each time that it is opened.
const DOCTOR: &str = "/doctor";
/// Requests of each view in a round.
const REQUESTS: usize = 5;
/// The same of the doctor, whom nobody asks again and again.
const EXAMINATIONS: usize = 1;

/// Sagas of the list, the steps of each, and their route.
const SAGAS: u32 = 200;
const STEPS: u32 = 3;
const SAGAS_ROUTE: &str = "sagas";

/// A view and the times of its first bytes, in milliseconds.
pub(super) struct Timed {
    /// The path for people: ids and cursors are left out.
    pub(super) shown: String,
    path: String,
    pub(super) times: Vec<f64>,
}

/// What is read of the first page.
#[derive(Deserialize)]
struct FirstPage {
    entries: Vec<Listed>,
    next: String,
}

#[derive(Deserialize)]
struct Listed {
    event_id: String,
}

impl Timed {
    fn new(shown: &str, path: String) -> Self {
        Self { shown: shown.to_owned(), path, times: Vec::new() }
    }

    /// Asks for it as often as a round has it.
    pub(super) async fn ask(&mut self, served: &Served) -> Result<(), Fault> {
        let requests = if self.path == DOCTOR { EXAMINATIONS } else { REQUESTS };
        for _ in 0..requests {
            self.times.push(first_byte(served, &self.path).await?);
        }
        Ok(())
    }
}

/// Every view. What has an id is taken from the first page: the second page, on the page and over the API, and the story
/// of an entry; and a saga is staged for its own.
pub(super) async fn views(served: &Served, bed: &Bed) -> Result<Vec<Timed>, Fault> {
    let failed = |why: String| Fault::failed(format!("{FIRST_PAGE}: {why}"));
    let saga = stage_sagas(bed).await?;
    let mut answer = String::new();
    let mut stream = served.ask(FIRST_PAGE).await.map_err(|error| failed(error.to_string()))?;
    stream.read_to_string(&mut answer).await.map_err(|error| failed(error.to_string()))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let page: FirstPage = serde_json::from_str(body).map_err(|error| failed(error.to_string()))?;
    let last = page.entries.last().ok_or_else(|| failed("no entries".to_owned()))?;
    let mut views: Vec<Timed> = VIEWS.iter().map(|path| Timed::new(path, (*path).to_owned())).collect();
    views.extend([
        Timed::new("/entries?cursor=…", format!("/entries?cursor={}", page.next)),
        Timed::new(&format!("{FIRST_PAGE}&cursor=…"), format!("{FIRST_PAGE}&cursor={}", page.next)),
        Timed::new("/entries/{event_id}", format!("/entries/{}", last.event_id)),
        Timed::new("/sagas/{id}", format!("/sagas/{saga}")),
    ]);
    Ok(views)
}

/// Sagas whose first steps wait. Returns the last one.
async fn stage_sagas(bed: &Bed) -> Result<SagaId, Fault> {
    let staging = &bed.big.staging;
    let outbox = staging.outbox(&RouteName::new(SAGAS_ROUTE)?);
    let mut tx = staging.begin().await?;
    let mut last = None;
    for number in 0..SAGAS {
        let saga = Saga::ordered("bench", Reference::new("bench", number.to_string()));
        let saga = (0..STEPS).fold(saga, |saga, step| saga.step(Step::new(step.to_string(), "bench.event")));
        last = Some(tx.stage_saga(&outbox, saga.build()?).await?.id());
    }
    tx.commit().await?;
    last.ok_or_else(|| Fault::failed("no saga was staged".to_owned()))
}

/// Milliseconds from the first packet of a new connection to the first byte of the answer.
async fn first_byte(served: &Served, path: &str) -> Result<f64, Fault> {
    let failed = |why: String| Fault::failed(format!("{path}: {why}"));
    let asked = async {
        let started = Instant::now();
        let mut stream = served.ask(path).await?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        let took = started.elapsed();
        // The rest is read, so that the next request does not meet a server at work.
        stream.read_to_end(&mut Vec::new()).await?;
        Ok::<_, std::io::Error>((took, answer))
    };
    let answered = tokio::time::timeout(PATIENCE, asked).await;
    let (took, answer): (Duration, _) = answered
        .map_err(|_| failed(format!("no answer after {} s", PATIENCE.as_secs())))?
        .map_err(|error| failed(error.to_string()))?;
    match &answer {
        // A search leads to its list. A route with dead entries is not ready, and says so.
        b"HTTP/1.1 200" | b"HTTP/1.1 303" | b"HTTP/1.1 503" => Ok(took.as_secs_f64() * 1000.0),
        other => Err(failed(format!("answered {}", String::from_utf8_lossy(other)))),
    }
}
