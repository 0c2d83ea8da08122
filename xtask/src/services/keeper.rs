//! Starts servers at the same time, each in a thread that keeps it until the end.
//!
//! The thread stays for as long as its server: the kernel ends a server when the *thread* that started it ends
//! (`setpriv --pdeathsig`), which is also what ends the servers when we are killed.

use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::ground::{Base, Ground, Never};
use super::{ALL, Facts, Server, Up, every, install};
use crate::Result;
use crate::exec::Executor;

/// How often a server is started on another port when it ends at once: someone else may have taken the port.
const TRIES_MAX: u32 = 3;

/// How long to wait between two looks at who has started.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a server says before it ends, and how many such lines of each are shown.
const GRAVE: [&str; 3] = ["PANIC:", "No space left on device", "terminated by signal"];
const COMPLAINTS_MAX: usize = 5;

/// What a thread says once: that its server answers, or why it does not.
type Word = std::result::Result<Facts, String>;

/// Running servers. Dropping them stops them all at once and removes their directory.
pub(crate) struct Servers {
    keepers: Vec<Keeper>,
    started: Vec<Facts>,
    /// Servers that need others before them.
    waiting: Vec<&'static dyn Server>,
    /// What the threads say, and the end that the next one gets.
    words: (Sender<Word>, Receiver<Word>),
    base: Arc<Base>,
    /// What tests start servers of their own with.
    program: String,
}

/// A thread that keeps one server. It stops the server when `stop` is dropped.
struct Keeper {
    stop: Option<Sender<Never>>,
    thread: Option<JoinHandle<()>>,
}

impl Servers {
    /// Begins to start every server there is. [`ready`](Self::ready) waits for them.
    pub(crate) fn begin_all(executor: &Executor) -> Result<Self> {
        Self::begin(executor, &ALL)
    }

    /// Starts the servers of these names.
    pub(crate) fn start_named(executor: &Executor, names: &[&str]) -> Result<Self> {
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        Self::start(executor, &super::parse(&names)?.servers)
    }

    /// Starts these servers, and returns when all of them answer.
    pub(super) fn start(executor: &Executor, servers: &[&'static dyn Server]) -> Result<Self> {
        let mut all = Self::begin(executor, servers)?;
        all.ready(executor)?;
        Ok(all)
    }

    /// Installs what these servers need, and starts all that need no other server.
    fn begin(executor: &Executor, servers: &[&'static dyn Server]) -> Result<Self> {
        if servers.len() < ALL.len() {
            install::missing(executor, servers)?;
        } else {
            // Whoever has all of them runs tests that start the others, at the same time: two installations would not do.
            install::missing(executor, &every().collect::<Vec<_>>())?;
        }
        let base = Arc::new(Base::new()?);
        let program = base.program()?.display().to_string();
        let (words, waiting) = (mpsc::channel(), servers.to_vec());
        let mut all = Self { keepers: Vec::new(), started: Vec::new(), waiting, words, base, program };
        all.go_on();
        Ok(all)
    }

    /// Starts the others, and returns when all of them answer.
    pub(crate) fn ready(&mut self, executor: &Executor) -> Result<()> {
        while !self.waiting.is_empty() || self.started.len() < self.keepers.len() {
            self.look()?;
            self.go_on();
            executor.pause(LOOK_EVERY)?;
        }
        Ok(())
    }

    /// Starts, all at the same time, those that need nothing that does not run yet.
    fn go_on(&mut self) {
        for server in mem::take(&mut self.waiting) {
            let runs = |need: &&str| self.started.iter().any(|facts| facts.name == *need);
            if server.needs().iter().all(runs) {
                self.keep(server);
            } else {
                self.waiting.push(server);
            }
        }
    }

    /// Takes what the threads said.
    fn look(&mut self) -> Result<()> {
        for word in self.words.1.try_iter() {
            let facts = word?;
            match facts.port {
                Some(port) => eprintln!("xtask: {} on port {port}", facts.name),
                None => eprintln!("xtask: {} is ready", facts.name),
            }
            self.started.push(facts);
        }
        Ok(())
    }

    fn keep(&mut self, server: &'static dyn Server) {
        let (stop, stopped) = mpsc::channel();
        let words = self.words.0.clone();
        let ground = Ground::new(Arc::clone(&self.base), stopped);
        let before = self.started.clone();
        let thread = thread::spawn(move || {
            let (word, processes) = match start(server, &ground, &before) {
                Ok(Up { facts, processes }) => (Ok(facts), processes),
                Err(error) => (Err(format!("{}: {error}", server.name())), Vec::new()),
            };
            if words.send(word).is_ok() {
                ground.until_stopped();
            }
            drop(processes);
        });
        self.keepers.push(Keeper { stop: Some(stop), thread: Some(thread) });
    }

    /// What the servers wrote that nobody should have to guess: that one of them ended or had no room.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, text) in self.base.logs() {
            let grave = |line: &&str| GRAVE.iter().any(|word| line.contains(word));
            complaints.extend(
                text.lines().filter(grave).take(COMPLAINTS_MAX).map(|line| format!("{name}: {line}")),
            );
        }
        complaints
    }

    /// One variable of the environment that tests read.
    pub(crate) fn variable(&self, wanted: &str) -> Result<&str> {
        let found = self.variables().find(|(name, _)| *name == wanted);
        found
            .map(|(_, value)| value)
            .ok_or_else(|| format!("none of the started servers sets {wanted}").into())
    }

    /// The environment that tests read.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let of_servers = self.started.iter().flat_map(|facts| &facts.variables);
        let of_servers = of_servers.map(|(name, value)| (*name, value.as_str()));
        of_servers.chain([("PILLARBOX_TEST_SERVICES", self.program.as_str())])
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for keeper in &mut self.keepers {
            keeper.stop = None;
        }
        for thread in self.keepers.iter_mut().filter_map(|keeper| keeper.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn start(server: &dyn Server, ground: &Ground, before: &[Facts]) -> Result<Up> {
    let mut tries = 1;
    loop {
        match server.start(ground, before) {
            Ok(up) => return Ok(up),
            Err(error) if tries == TRIES_MAX || ground.is_interrupted() => return Err(error),
            Err(_) => tries += 1,
        }
    }
}
