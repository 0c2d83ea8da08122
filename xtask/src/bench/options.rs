//! What `cargo xtask bench` was asked for.

use super::peers::{self, Server};
use super::{brokers, databases, views};
use crate::Result;

pub(crate) const HELP: &str = "\
Measures Pillarbox beside raw loops and beside peers. Each stages and then drains the same number of no-op jobs on one
PostgreSQL that is started for it. They take turns, and the medians of several rounds count.

Usage: cargo xtask bench [--quick] [--repeat N] [--only NAME]... [--no-peers]
       cargo xtask bench --brokers | --consumers | --databases | --page [--quick] [--repeat N] [--only NAME]...

  --quick       A tenth of the jobs and one round, to see that it runs. Its figures mean nothing
  --repeat N    Rounds; default 3, with --brokers 5. A peer that takes minutes runs in the first round only, and the table says so
  --only NAME   Only this one; may be given many times. `pillarbox` is Pillarbox with the raw loops
  --no-peers    The same as --only pillarbox
  --brokers     Instead: the relay from SQLite and from PostgreSQL to each broker, beside the broker's client alone,
                the database alone and both at once, and one key beside a thousand; --only names a broker then. That of
                Kafka's protocol is built first, which takes half an hour once
  --consumers   Instead: from commit to the confirmation of each broker, a consumer of it, without and with the inbox, and
                consumers in batches; --only names a broker then
  --databases   Instead: drains on MariaDB, MySQL and MongoDB, each beside raw loops and peers on the same server;
                --only names a database then, or who is to run on all of them: a peer, or `pillarbox`
  --page        Instead: the first byte of each view of the page over 1,000,000 entries, the relay beside ten open pages, and
                an idle relay, on PostgreSQL and on SQLite; --only names one of these then
  --help        This text

Peers are installed from npm, PyPI and the registry of cargo into target/peers, which takes minutes once. If a peer cannot be
installed, the table has the reason. A whole run (with no option but --repeat) also measures growth,
latency, memory and the held transaction, and writes docs/performance.md and docs/performance.svg. A whole run with
--brokers, --consumers, --databases or --page writes its own tables in docs/performance.md, and no others.";

const REPEAT: u32 = 3;
/// The same of the relay to brokers, whose ratios vary more.
const REPEAT_BROKERS: u32 = 5;
const REPEAT_MAX: u32 = 100;
/// The name of everything that is ours.
pub(crate) const OURS: &str = "pillarbox";
/// How many times fewer jobs a quick run has.
const QUICK: u32 = 10;

/// Beside whom, or with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Beside peers.
    Peers,
    /// The relay to each broker.
    Brokers,
    /// What comes out at the other end of each broker.
    Consumers,
    /// Drains on the servers besides PostgreSQL.
    Databases,
    /// The page over a large outbox.
    Page,
}

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// What is measured.
    pub(crate) subject: Subject,
    /// Only to see that it runs.
    pub(crate) quick: bool,
    /// Rounds.
    pub(crate) repeat: u32,
    /// Names; empty: all.
    pub(crate) only: Vec<String>,
    /// The help is wanted instead.
    pub(crate) help: bool,
}

impl Options {
    /// Whether this one is to be run.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Whether this one of a group is to be run: all of a group are unless one of it is named.
    pub(crate) fn wants_of(&self, group: impl Fn(&str) -> bool, name: &str) -> bool {
        let mut named = self.only.iter().filter(|only| group(only)).peekable();
        named.peek().is_none() || named.any(|only| only == name)
    }

    /// Whether what is ours is to be run.
    pub(crate) fn wants_ours(&self) -> bool {
        self.wants(OURS)
    }

    /// Whether the figures are fit to be published.
    pub(crate) fn is_whole(&self) -> bool {
        !self.quick && self.only.is_empty()
    }

    /// How many rounds, for people.
    pub(crate) fn rounds(&self) -> String {
        format!("{} {}", self.repeat, if self.repeat == 1 { "round" } else { "rounds" })
    }

    /// So many jobs, or fewer.
    pub(crate) fn jobs(&self, jobs: u32) -> u32 {
        if self.quick { (jobs / QUICK).max(1) } else { jobs }
    }
}

/// Reads the arguments after `bench`.
pub(crate) fn parse(arguments: &[String]) -> Result<Options> {
    let mut options =
        Options { subject: Subject::Peers, quick: false, repeat: 0, only: Vec::new(), help: false };
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument {
            "--quick" => options.quick = true,
            "--no-peers" => options.only.push(OURS.to_owned()),
            "--only" => options.only.push(value()?.to_owned()),
            "--brokers" | "--consumers" | "--databases" | "--page" if options.subject != Subject::Peers => {
                return Err("bench: give --brokers, --consumers, --databases or --page, once".into());
            }
            "--brokers" => options.subject = Subject::Brokers,
            "--consumers" => options.subject = Subject::Consumers,
            "--databases" => options.subject = Subject::Databases,
            "--page" => options.subject = Subject::Page,
            "--repeat" => options.repeat = rounds(value()?)?,
            "--help" | "-h" => options.help = true,
            other => return Err(format!("bench: unknown argument {other}").into()),
        }
    }
    let known: Vec<&str> = match options.subject {
        Subject::Peers => peers::on(Server::Postgres).map(|peer| peer.name).chain([OURS]).collect(),
        Subject::Brokers | Subject::Consumers => brokers::ALL.iter().map(|broker| broker.name).collect(),
        Subject::Databases => databases::names(),
        Subject::Page => views::ALL.iter().map(|(name, _)| *name).collect(),
    };
    if let Some(name) = options.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("bench: unknown name {name}; the known names are: {}", known.join(", ")).into());
    }
    if options.repeat == 0 {
        options.repeat = match options.subject {
            _ if options.quick => 1,
            Subject::Brokers => REPEAT_BROKERS,
            Subject::Peers | Subject::Consumers | Subject::Databases | Subject::Page => REPEAT,
        };
    }
    Ok(options)
}

fn rounds(text: &str) -> Result<u32> {
    match text.parse() {
        Ok(rounds) if (1..=REPEAT_MAX).contains(&rounds) => Ok(rounds),
        _ => Err(format!("bench: --repeat {text}: it must be 1 to {REPEAT_MAX}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Result<Options> {
        parse(&arguments.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_means_a_whole_run() {
        let options = parsed("").unwrap();
        assert_eq!((options.repeat, options.is_whole(), options.jobs(20)), (3, true, 20));
        assert!(options.wants_ours() && options.wants("pg-boss"));
        assert!(parsed("--repeat 5").unwrap().is_whole());
    }

    #[test]
    fn a_quick_run_without_peers_publishes_nothing() {
        let options = parsed("--no-peers --quick").unwrap();
        assert_eq!((options.repeat, options.is_whole(), options.jobs(25)), (1, false, 2));
        assert!(options.wants_ours() && !options.wants("pg-boss"));
    }

    #[test]
    fn names_are_known_or_refused() {
        let options = parsed("--only pg-boss --only pgqueuer --repeat 7").unwrap();
        assert_eq!((options.repeat, options.only.len(), options.wants_ours()), (7, 2, false));
        for wrong in ["--only nobody", "--only redis", "--only", "--repeat 0", "--repeat many", "--fast"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn brokers_databases_and_the_page_have_names_of_their_own() {
        for (argument, subject) in [("--brokers", Subject::Brokers), ("--consumers", Subject::Consumers)] {
            let options = parsed(&format!("{argument} --only redis")).unwrap();
            assert_eq!(options.subject, subject);
            assert!(options.wants("redis") && !options.wants("valkey") && !options.is_whole());
        }
        let options = parsed("--databases --only mongodb").unwrap();
        assert_eq!((options.subject, options.repeat), (Subject::Databases, 3));
        assert!(options.wants("mongodb") && !options.wants("mysql") && !options.is_whole());
        let options = parsed("--databases --only mysql --only ruststream-sqlx").unwrap();
        let servers = |name: &str| matches!(name, "mariadb" | "mysql" | "mongodb");
        assert!(options.wants_of(servers, "mysql") && !options.wants_of(servers, "mariadb"));
        let others = |name: &str| !servers(name);
        assert!(options.wants_of(others, "ruststream-sqlx") && !options.wants_of(others, OURS));
        let ours = parsed("--databases --no-peers").unwrap();
        assert!(ours.wants_of(servers, "mariadb") && ours.wants_of(others, OURS));
        let options = parsed("--page --only sqlite").unwrap();
        assert_eq!((options.subject, options.repeat), (Subject::Page, 3));
        assert!(options.wants("sqlite") && !options.wants("postgres") && !options.is_whole());
        for wrong in [
            "--page --only mysql",
            "--page --databases",
            "--brokers --only pg-boss",
            "--consumers --no-peers",
            "--brokers --consumers",
            "--databases --only redis",
            "--databases --only pg-boss",
            "--only agenda",
            "--databases --brokers",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
