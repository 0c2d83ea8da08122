//! `cargo xtask bench`: Pillarbox beside raw loops and beside peers, the same no-op work on the same server.
//!
//! Everything runs in turns, round by round, so that all meet the same weather, and what was disturbed is measured again;
//! medians are printed. Peers come from
//! their registries into `target/peers`; what cannot be installed or fails is named in the table with its reason.
//! With `--brokers` it is the relay to each broker beside that broker's own client, with `--consumers` what comes out at
//! the other end. With `--databases` it is drains on the other servers, beside raw loops and the peers there. With `--page`
//! it is the page over a large outbox.

mod brokers;
mod databases;
mod goals;
mod install;
mod machine;
mod options;
mod ours;
mod page;
mod peers;
mod plot;
mod run;
mod stats;
mod table;
mod views;
mod weather;

use std::path::PathBuf;

use crate::exec::Executor;
use crate::services::Servers;
use crate::{Result, root};

pub(crate) use options::{HELP, Options, parse};

use install::Installed;
use machine::Machine;
use options::Subject;
use ours::Ours;
use peers::Server;
use run::Runner;
use table::Row;
use weather::Weather;

/// Where peers are installed, below the repository.
const PEERS: &str = "target/peers";

/// Runs what was asked for.
pub(crate) fn run(options: &Options) -> Result<u8> {
    match options.subject {
        Subject::Peers => beside_peers(options),
        Subject::Brokers | Subject::Consumers => brokers::run(options),
        Subject::Databases => databases::run(options),
        Subject::Page => views::run(options),
    }
}

/// Runs everything, prints the tables, and writes the page if the run was whole.
fn beside_peers(options: &Options) -> Result<u8> {
    let executor = Executor::new()?;
    let places = Places::new()?;
    let peers: Vec<_> = peers::on(Server::Postgres).filter(|peer| options.wants(peer.name)).collect();
    let installed = Installed::new(&executor, &places, &peers)?;
    let ours = options.wants_ours().then(|| Ours::build(&executor, &places)).transpose()?;
    let servers = Servers::start_named(&executor, &["postgres"])?;
    let runner = Runner::new(&executor, &places, &servers)?;

    let mut machine = Machine::look(&runner)?;
    let mut weather = Weather::default();
    let mut rows = ours::rows(options);
    rows.extend(peers.iter().map(|peer| Row::of_peer(peer, options)));
    for round in 1..=options.repeat {
        eprintln!("bench: round {round} of {}, load {}", options.repeat, machine.note_load());
        if let Some(ours) = &ours {
            let drained = weather.calm(|| ours.drain(&runner, options))?;
            rows.iter_mut().for_each(|row| row.add_ours(&drained));
        }
        for peer in peers.iter().filter(|peer| peer.rounds.has(round)) {
            let Some(row) = rows.iter_mut().find(|row| row.is(peer)) else { continue };
            row.take(installed.of(peer).and_then(|()| weather.calm(|| runner.peer(peer, options))));
        }
    }
    machine.note_load();
    stats::compare(&mut rows);
    let beside = table::markdown(&rows, &machine, options);
    println!("{beside}");
    let Some(ours) = ours.filter(|_| options.is_whole()) else {
        eprintln!("bench: not a whole run, so docs/performance.md stays as it is");
        return Ok(0);
    };
    let measured = goals::measure(&ours, &runner, options, &mut weather)?;
    let goals = goals::markdown(&measured, &rows, &mut machine, &weather, options);
    println!("{goals}");
    page::write(&places.root, &[("peers", &beside), ("goals", &goals)])?;
    std::fs::write(places.root.join(page::PLOT), plot::svg(&rows))?;
    eprintln!("bench: written to {} and {}", page::PAGE, page::PLOT);
    Ok(0)
}

/// Where things are.
struct Places {
    root: PathBuf,
    /// The scripts of the peers, written by us.
    sources: PathBuf,
    /// The peers, made by their installers.
    peers: PathBuf,
}

impl Places {
    fn new() -> Result<Self> {
        let root = root()?;
        let peers = root.join(PEERS);
        std::fs::create_dir_all(&peers)?;
        Ok(Self { peers, sources: root.join("xtask/peers"), root })
    }
}
