//! The peers: who they are, and how much work they get.

/// Where a peer comes from and what runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    Node,
    Python,
    Rust,
}

/// Somebody else's queue or outbox. Its script is `xtask/peers/LANGUAGE/NAME`, and prints one line of JSON: `jobs`,
/// `seconds` from the first to the last, and `version`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The word on the command line.
    pub(crate) name: &'static str,
    pub(crate) language: Language,
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

pub(crate) const ALL: [Peer; 10] = [
    Peer {
        name: "graphile_worker",
        language: Language::Rust,
        // Its local queues hold 5,000 before the first is handled, and the clock starts then.
        jobs: 100_000,
        rounds: Rounds::All,
        setting: "4 local queues of 1,250, 500 at once, batched completion",
    },
    Peer {
        name: "outbox-core",
        language: Language::Rust,
        jobs: MANY,
        rounds: Rounds::All,
        setting: "with outbox-postgres, batches of 1,000, two managers, no-op transport",
    },
    Peer {
        name: "apalis-postgres",
        language: Language::Rust,
        jobs: 10_000,
        rounds: Rounds::All,
        setting: "batches of 1,000, no second lock, two workers",
    },
    Peer {
        name: "graphile-worker",
        language: Language::Node,
        jobs: MANY,
        rounds: Rounds::All,
        setting: "local queue of 500, batched completion, 24 at once: its own benchmark's",
    },
    Peer {
        name: "pg-boss",
        language: Language::Node,
        jobs: MANY,
        rounds: Rounds::All,
        setting: "two workers that fetch and complete 500 at once",
    },
    Peer {
        name: "pgqueuer",
        language: Language::Python,
        jobs: 10_000,
        rounds: Rounds::All,
        setting: "batches of 500",
    },
    Peer {
        name: "djanorm",
        language: Language::Python,
        jobs: 2000,
        rounds: Rounds::All,
        setting: "relay in batches of 500, no-op publish",
    },
    Peer {
        name: "procrastinate",
        language: Language::Python,
        jobs: 1000,
        rounds: Rounds::All,
        setting: "20 at once",
    },
    Peer {
        name: "effaced",
        language: Language::Python,
        jobs: 500,
        rounds: Rounds::All,
        setting: "claim and mark in batches of 100",
    },
    Peer {
        name: "effaced_saga",
        language: Language::Python,
        // As many as ours: 10,000 sagas of three steps.
        jobs: 30_000,
        rounds: Rounds::First,
        setting: "its saga runner with the database audit, three entries a subject, batches of 500",
    },
];
