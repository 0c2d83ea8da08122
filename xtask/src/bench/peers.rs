//! The peers: who they are, and how much work they get.

/// Where a peer comes from and what runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    Node,
    Python,
    Rust,
    /// The same in a package apart, which is only built for the run on other servers.
    RustMysql,
}

/// A server that peers run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Postgres,
    MariaDb,
    MySql,
    MongoDb,
}

/// Somebody else's queue or outbox. Its script is `xtask/peers/LANGUAGE/NAME`, and prints one line of JSON: `jobs`,
/// `seconds` from the first to the last, and `version`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The word on the command line.
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// Where it runs.
    pub(crate) servers: &'static [Server],
    /// How many jobs it gets: fewer where it would take minutes.
    pub(crate) jobs: u32,
    /// In which rounds it runs.
    pub(crate) rounds: Rounds,
    /// How its script sets it up, for the table.
    pub(crate) setting: &'static str,
}

/// In which rounds a peer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounds {
    All,
    /// One round takes minutes, and all of them would take longer than everything else.
    First,
}

impl Rounds {
    pub(crate) fn has(self, round: u32) -> bool {
        self == Self::All || round == 1
    }
}

const MANY: u32 = 20_000;
const POSTGRES: &[Server] = &[Server::Postgres];
const MYSQL: &[Server] = &[Server::MariaDb, Server::MySql];
const SQL: &[Server] = &[Server::Postgres, Server::MariaDb, Server::MySql];
const MONGODB: &[Server] = &[Server::MongoDb];

/// Those that run on a server.
pub(crate) fn on(server: Server) -> impl Iterator<Item = Peer> {
    ALL.into_iter().filter(move |peer| peer.servers.contains(&server))
}

pub(crate) const ALL: [Peer; 15] = [
    Peer {
        name: "graphile_worker",
        language: Language::Rust,
        servers: POSTGRES,
        // Its local queues hold 5,000 before the first is handled, and the clock starts then.
        jobs: 100_000,
        rounds: Rounds::All,
        setting: "4 local queues of 1,250, 500 at once, batched completion",
    },
    Peer {
        name: "outbox-core",
        language: Language::Rust,
        servers: POSTGRES,
        jobs: MANY,
        rounds: Rounds::All,
        setting: "with outbox-postgres, batches of 1,000, two managers, no-op transport",
    },
    Peer {
        name: "apalis-postgres",
        language: Language::Rust,
        servers: POSTGRES,
        jobs: 10_000,
        rounds: Rounds::All,
        setting: "batches of 1,000, no second lock, two workers",
    },
    Peer {
        name: "graphile-worker",
        language: Language::Node,
        servers: POSTGRES,
        jobs: MANY,
        rounds: Rounds::All,
        setting: "local queue of 500, batched completion, 24 at once: its own benchmark's",
    },
    Peer {
        name: "pg-boss",
        language: Language::Node,
        servers: POSTGRES,
        jobs: MANY,
        rounds: Rounds::All,
        setting: "two workers that fetch and complete 500 at once",
    },
    Peer {
        name: "pgqueuer",
        language: Language::Python,
        servers: POSTGRES,
        jobs: 10_000,
        rounds: Rounds::All,
        setting: "batches of 500",
    },
    Peer {
        name: "djanorm",
        language: Language::Python,
        servers: SQL,
        jobs: 2000,
        rounds: Rounds::All,
        setting: "relay in batches of 500, no-op publish",
    },
    Peer {
        name: "procrastinate",
        language: Language::Python,
        servers: POSTGRES,
        jobs: 1000,
        rounds: Rounds::All,
        setting: "20 at once",
    },
    Peer {
        name: "effaced",
        language: Language::Python,
        servers: SQL,
        jobs: 500,
        rounds: Rounds::All,
        setting: "claim and mark in batches of 100",
    },
    Peer {
        name: "effaced_saga",
        language: Language::Python,
        servers: POSTGRES,
        // As many as ours: 10,000 sagas of three steps.
        jobs: 30_000,
        rounds: Rounds::First,
        setting: "its saga runner with the database audit, three entries a subject, batches of 500",
    },
    Peer {
        name: "ruststream-sqlx",
        language: Language::RustMysql,
        servers: MYSQL,
        // Its workers hold 2,000 before the first is handled, and the clock starts then.
        jobs: 100_000,
        rounds: Rounds::All,
        setting: "its queue in a table by row locks, batches of 500, four workers",
    },
    Peer {
        name: "hexeract-outbox-sql",
        language: Language::RustMysql,
        servers: MYSQL,
        jobs: 10_000,
        rounds: Rounds::All,
        setting: "batches of 50, eight workers",
    },
    Peer {
        name: "apalis-mysql",
        language: Language::RustMysql,
        servers: &[Server::MySql],
        jobs: 10_000,
        rounds: Rounds::All,
        setting: "buffers of 500, two workers, 32 connections",
    },
    Peer {
        name: "mongodb-queue",
        language: Language::Node,
        servers: MONGODB,
        jobs: 2000,
        rounds: Rounds::All,
        setting: "one message at a time, 32 beside one another, the driver of version 3 that it needs",
    },
    Peer {
        name: "agenda",
        language: Language::Node,
        servers: MONGODB,
        jobs: 2000,
        rounds: Rounds::All,
        setting: "up to 500 at once, a look every 100 ms",
    },
];
