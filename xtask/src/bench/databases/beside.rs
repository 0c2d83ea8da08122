//! The peers of one server: each run begins with an empty database of its own.

use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::bench::Places;
use crate::bench::install::Installed;
use crate::bench::options::Options;
use crate::bench::peers::Peer;
use crate::bench::run::{Done, command, done, said};
use crate::bench::table::{Row, Standing, thousands};
use crate::bench::weather::Weather;
use crate::exec::Executor;

/// The database of the peer that runs.
const DATABASE: &str = "peers";

/// A started server, and the script that speaks to it.
pub(super) struct Server<'a> {
    pub(super) url: &'a str,
    /// A Python with the clients of all servers.
    pub(super) python: &'a str,
}

impl Server<'_> {
    pub(super) fn version(&self, places: &Places) -> Result<String> {
        self.script(&places.root, "version", self.url)
    }

    /// Nobody finds what somebody else has left.
    fn empty_database(&self, places: &Places) -> Result<String> {
        let url = self.url_of_peers();
        self.script(&places.root, "fresh", &url)?;
        Ok(url)
    }

    fn url_of_peers(&self) -> String {
        let (server, database) = self.url.rsplit_once('/').unwrap_or((self.url, ""));
        let options = database.find('?').map_or("", |at| &database[at..]);
        format!("{server}/{DATABASE}{options}")
    }

    fn script(&self, root: &Path, verb: &str, url: &str) -> Result<String> {
        let script = root.join("xtask/databases/server.py");
        let output = Command::new(self.python).arg(script).args([verb, url]).output()?;
        if !output.status.success() {
            return Err(format!("{verb}: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// What runs peers on any server.
pub(super) struct Peers<'a> {
    pub(super) executor: &'a Executor,
    pub(super) places: &'a Places,
    pub(super) installed: &'a Installed,
    pub(super) options: &'a Options,
}

impl Peers<'_> {
    /// Runs them in turns, round by round; the fastest comes first.
    pub(super) fn measure(&self, server: &Server<'_>, peers: &[Peer], weather: &mut Weather) -> Vec<Row> {
        let mut rows: Vec<Row> = peers.iter().map(|peer| Row::of_peer(peer, self.options)).collect();
        for round in 1..=self.options.repeat {
            for (peer, row) in peers.iter().zip(&mut rows) {
                // Whoever failed once is not in the table, and may fail by taking ten minutes.
                if peer.rounds.has(round) && matches!(row.standing, Standing::Ran) {
                    let run = || self.run(server, peer);
                    row.take(self.installed.of(peer).and_then(|()| weather.calm(run)));
                }
            }
        }
        rows.sort_by(|a, b| b.rate().unwrap_or(0.0).total_cmp(&a.rate().unwrap_or(0.0)));
        rows
    }

    fn run(&self, server: &Server<'_>, peer: &Peer) -> Result<Done> {
        let url = server.empty_database(self.places)?;
        let jobs = self.options.jobs(peer.jobs);
        let mut command = command(self.places, peer, jobs);
        done(&said(self.executor, self.places, command.env("DATABASE_URL", url))?, jobs)
    }
}

/// A row of the table of databases, beside the rate of the raw loop.
pub(super) fn markdown(shown: &str, row: &Row, raw: Option<f64>) -> String {
    let (name, setting) = (&row.name, &row.setting);
    let jobs = thousands(row.jobs.into());
    match (&row.standing, row.rate()) {
        (Standing::Failed(reason), _) => {
            format!("| {shown}, {name} | – | | | | {jobs} jobs; {setting}; {reason} |\n")
        }
        (Standing::Ran, rate) => format!(
            "| {shown}, {name} {} | {} | | | {} | {jobs} jobs; {setting} |\n",
            row.version,
            rate.map(thousands).unwrap_or_default(),
            rate.zip(raw).map(|(rate, raw)| format!("{:.2}", rate / raw)).unwrap_or_default(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers;

    fn peers_url(url: &str) -> String {
        Server { url, python: "" }.url_of_peers()
    }

    #[test]
    fn peers_have_a_database_of_their_own_on_the_same_server() {
        assert_eq!(peers_url("mysql://u:p@h:1/pillarbox"), "mysql://u:p@h:1/peers");
        assert_eq!(
            peers_url("mongodb://u:p@h:1/bench?replicaSet=rs0"),
            "mongodb://u:p@h:1/peers?replicaSet=rs0"
        );
    }

    #[test]
    fn who_ran_has_a_ratio_and_who_failed_has_a_reason() {
        let options = crate::bench::parse(&["--databases".into()]).unwrap();
        let peer = peers::on(peers::Server::MongoDb).next().unwrap();
        let mut row = Row::of_peer(&peer, &options);
        for per_second in [100.0, 300.0, 200.0] {
            row.take(Ok(Done { per_second, version: "4.0.0".into() }));
        }
        let text = markdown("MongoDB", &row, Some(400.0));
        assert!(
            text.starts_with("| MongoDB, mongodb-queue 4.0.0 | 200 | | | 0.50 | 2,000 jobs; Node; "),
            "{text}"
        );
        let alone = markdown("MongoDB", &row, None);
        assert!(alone.starts_with("| MongoDB, mongodb-queue 4.0.0 | 200 | | |  | "), "{alone}");
        row.take(Err("took more than | 600 s\nand more".into()));
        let text = markdown("MongoDB", &row, Some(400.0));
        assert!(text.starts_with("| MongoDB, mongodb-queue | – | | | | 2,000 jobs; Node; "), "{text}");
        assert!(text.ends_with("; took more than / 600 s |\n"), "{text}");
    }
}
