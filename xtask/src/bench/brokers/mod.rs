//! `cargo xtask bench --brokers`: the relay from each database to each broker, beside the broker's client alone, the
//! database alone and both at once. `--consumers`: the latency to each broker, and what is consumed from it.

mod table;

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::machine::Machine;
use super::options::{Options, Subject};
use super::ours::Ours;
use super::run::Runner;
use super::weather::Weather;
use super::{Places, page};
use crate::Result;
use crate::exec::Executor;
use crate::services::Servers;

/// Entries of each measurement.
const ENTRIES: u32 = 10_000;
/// Events of each measurement of latency, of each way.
const LATENCY: u32 = 1_000;
/// Events of each measurement of consumers in batches.
const CONSUMED: u32 = 5_000;

/// A place that can be sent to.
pub(crate) struct Broker {
    /// The word on the command line, and what `xtask/brokers/fresh.py` makes.
    pub(crate) name: &'static str,
    /// What it is called in the table.
    shown: &'static str,
    /// The word of its server.
    server: &'static str,
    /// Where the server's URL is.
    variable: &'static str,
    /// What follows the server's URL in that of the destination.
    to: &'static str,
    /// The same of the source; none: it cannot be consumed from.
    from: Option<&'static str>,
}

pub(crate) const ALL: [Broker; 9] = [
    Broker {
        name: "redis",
        shown: "Redis",
        server: "redis",
        variable: "PILLARBOX_TEST_REDIS",
        to: "?stream=bench",
        from: Some("?stream=bench&group=bench"),
    },
    Broker {
        name: "redis-synced",
        shown: "Redis, `appendfsync always`",
        server: "redis",
        variable: "PILLARBOX_TEST_REDIS",
        to: "?stream=bench",
        from: Some("?stream=bench&group=bench"),
    },
    Broker {
        name: "valkey",
        shown: "Valkey",
        server: "valkey",
        variable: "PILLARBOX_TEST_VALKEY",
        to: "?stream=bench",
        from: Some("?stream=bench&group=bench"),
    },
    Broker {
        name: "nats",
        shown: "NATS JetStream",
        server: "nats-latest",
        variable: "PILLARBOX_TEST_NATS_LATEST",
        to: "/bench",
        from: Some("/bench?stream=bench&durable=bench"),
    },
    Broker {
        name: "kafka",
        shown: "Kafka's protocol, nisshi",
        server: "kafka",
        variable: "PILLARBOX_TEST_KAFKA",
        to: "/bench",
        from: Some("/bench?group=bench"),
    },
    Broker {
        name: "mosquitto",
        shown: "Mosquitto",
        server: "mosquitto",
        variable: "PILLARBOX_TEST_MQTT",
        to: "/bench",
        from: Some("/bench?client_id=bench"),
    },
    Broker {
        name: "rabbitmq-classic",
        shown: "RabbitMQ, classic queue",
        server: "rabbitmq",
        variable: "PILLARBOX_TEST_AMQP",
        to: "?routing_key=bench",
        from: Some("?queue=bench&queue_type=classic"),
    },
    Broker {
        name: "rabbitmq-quorum",
        shown: "RabbitMQ, quorum queue",
        server: "rabbitmq",
        variable: "PILLARBOX_TEST_AMQP",
        to: "?routing_key=bench",
        from: Some("?queue=bench&queue_type=quorum"),
    },
    Broker {
        name: "rabbitmq-stream",
        shown: "RabbitMQ, stream",
        server: "rabbitmq",
        variable: "PILLARBOX_TEST_AMQP",
        to: "?routing_key=bench",
        from: None,
    },
];

/// Where entries come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// What was measured from one database to one broker.
pub(crate) struct Pair {
    database: Database,
    broker: &'static str,
    figures: Value,
}

/// Measures all of them, prints the tables, and writes them into the page if the run was whole.
pub(crate) fn run(options: &Options) -> Result<u8> {
    let executor = Executor::new()?;
    let places = Places::new()?;
    let ours = Ours::build(&executor, &places)?;
    let brokers: Vec<&Broker> = ALL.iter().filter(|broker| options.wants(broker.name)).collect();
    let servers = Servers::start_named(&executor, &["postgres", "python"])?;
    let runner = Runner::new(&executor, &places, &servers)?;
    let fresh =
        Fresh { executor: &executor, script: places.root.join("xtask/brokers/fresh.py"), servers: &servers };

    let mut machine = Machine::look(&runner)?;
    let mut weather = Weather::of_medians();
    let mut pairs = Vec::new();
    for broker in brokers {
        machine.note_load();
        for database in [Database::Sqlite, Database::Postgres] {
            let figures = weather.calm(|| {
                // Each pair has a broker of its own: nisshi becomes slower with each record that it ever stored.
                let server = Servers::start_named(&executor, &[broker.server])?;
                let url = fresh.make(broker, &server)?;
                measure(&ours, &runner, options, database, broker, &url)
            })?;
            let pair = [Pair { database, broker: broker.shown, figures }];
            // The whole takes an hour: whoever ends it early has these.
            eprintln!("{}", tables(options, &pair));
            pairs.extend(pair);
        }
    }
    let mut tables = tables(options, &pairs);
    let section = match options.subject {
        Subject::Consumers => {
            let batches = in_batches(&ours, &runner, options, &mut weather)?;
            tables = format!("{tables}\n{}", table::batches(&batches));
            "consumers"
        }
        Subject::Brokers | Subject::Peers | Subject::Databases | Subject::Page => "brokers",
    };
    machine.note_load();
    let text = format!("{}\n{tables}", table::conditions(section, &machine, &weather, options));
    println!("{text}");
    if options.is_whole() {
        page::write(&places.root, &[(section, &text)])?;
        eprintln!("bench: written to {}", page::PAGE);
    } else {
        eprintln!("bench: not a whole run, so {} stays as it is", page::PAGE);
    }
    Ok(0)
}

/// What was measured of these, but consumers in batches.
fn tables(options: &Options, pairs: &[Pair]) -> String {
    match options.subject {
        Subject::Consumers => table::consumers(pairs),
        Subject::Brokers | Subject::Peers | Subject::Databases | Subject::Page => table::rates(pairs),
    }
}

/// One pair: `pillarbox-bench --to`.
fn measure(
    ours: &Ours,
    runner: &Runner<'_>,
    options: &Options,
    database: Database,
    broker: &Broker,
    url: &str,
) -> Result<Value> {
    let number = |number: u32| options.jobs(number).to_string();
    let (to, from) = (format!("{url}{}", broker.to), broker.from.map(|from| format!("{url}{from}")));
    let (repeat, events, latency) = (options.repeat.to_string(), number(ENTRIES), number(LATENCY));
    let mut arguments = vec!["--to", &to, "--repeat", &repeat, "--events", &events];
    if options.subject == Subject::Consumers {
        arguments.extend(["--latency", &latency]);
        arguments.extend(from.iter().flat_map(|from| ["--from", from]));
    }
    match database {
        Database::Sqlite => ours.bench_embedded(runner, &arguments),
        Database::Postgres => ours.bench(runner, &arguments),
    }
}

/// A consumer from memory on each database: `pillarbox-bench --consume`.
fn in_batches(
    ours: &Ours,
    runner: &Runner<'_>,
    options: &Options,
    weather: &mut Weather,
) -> Result<Vec<Pair>> {
    let (repeat, events) = (options.repeat.to_string(), options.jobs(CONSUMED).to_string());
    let arguments = ["--consume", &events, "--repeat", &repeat];
    let pairs = [Database::Sqlite, Database::Postgres].map(|database| {
        let figures = weather.calm(|| match database {
            Database::Sqlite => ours.bench_embedded(runner, &arguments),
            Database::Postgres => ours.bench(runner, &arguments),
        })?;
        Ok(Pair { database, broker: "memory", figures })
    });
    pairs.into_iter().collect()
}

/// Makes places on brokers.
struct Fresh<'a> {
    executor: &'a Executor,
    script: PathBuf,
    /// Those that all brokers share.
    servers: &'a Servers,
}

impl Fresh<'_> {
    /// Makes it anew on this server, empty, and returns the server's URL.
    fn make(&self, broker: &Broker, server: &Servers) -> Result<String> {
        let url = server.variable(broker.variable)?;
        let mut command = Command::new(self.servers.variable("PILLARBOX_TEST_PYTHON")?);
        match self.executor.run(command.arg(&self.script).args([broker.name, url]))? {
            0 => Ok(url.to_owned()),
            code => Err(format!("{} could not be made ready: exit code {code}", broker.name).into()),
        }
    }
}
