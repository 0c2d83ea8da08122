//! A temporary directory to work in, and ways to run the binary there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How many lines of a log a failed test tells.
const LINES_TOLD: usize = 40;

/// Where a user types `pillarbox`.
pub(crate) struct Home {
    dir: TempDir,
    /// Files of what programs said.
    logs: Mutex<Vec<PathBuf>>,
}

/// A test that fails tells what the programs said last.
impl Drop for Home {
    #[expect(clippy::print_stderr, reason = "beside the failure, which is told there too")]
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for log in self.logs.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n");
            eprintln!("the end of {}:\n{last}", log.file_name().unwrap_or_default().display());
        }
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// Stdout as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Stdout as one JSON value a line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Asserts the exit code, and that stderr says each of these.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, with: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for part in with {
            assert!(self.stderr.contains(part), "{part:?} is not said: {self:?}");
        }
        assert!(!self.stderr.contains("panicked at"), "{self:?}");
    }
}

impl Home {
    /// An empty directory.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), logs: Mutex::default() }
    }

    /// A directory with a migrated SQLite database.
    pub(crate) fn migrated() -> Self {
        let home = Self::new();
        home.ok(["migrate"]);
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The command, ready to run here: nothing of the developer's own environment gets in.
    pub(crate) fn command<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        for name in ["DATABASE_URL", "PILLARBOX_LOG", "RUST_BACKTRACE", "CLICOLOR_FORCE", "TRACEPARENT"] {
            command.env_remove(name);
        }
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OTEL_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs to the end.
    pub(crate) fn run<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Said {
        self.command(args).output().unwrap().into()
    }

    /// Runs to the end and expects exit 0.
    #[track_caller]
    pub(crate) fn ok<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Said {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{said:?}");
        said
    }

    /// Starts and leaves it running.
    pub(crate) fn start<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Running {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    /// Starts and leaves it running, with what it says on stderr in a file.
    pub(crate) fn start_logged<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &self,
        log: &str,
        args: I,
    ) -> Running {
        let (mut command, log) = (self.command(args), self.path(log));
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).push(log);
        Running(Some(command.spawn().unwrap()))
    }

    /// Stages `count` events of one route by NDJSON and returns their ids.
    pub(crate) fn stage_many(&self, route: &str, count: u32) -> Vec<String> {
        let ids: Vec<_> = (0..count).map(|_| uuid::Uuid::now_v7().to_string()).collect();
        let lines: String = ids
            .iter()
            .enumerate()
            .map(|(n, id)| {
                format!("{{\"route\":\"{route}\",\"type\":\"t\",\"event_id\":\"{id}\",\"payload\":{n}}}\n")
            })
            .collect();
        self.write("staged.ndjson", &lines);
        let said = self.ok(["stage", "--ndjson", "staged.ndjson", "--json"]);
        assert_eq!(said.json(), serde_json::json!({"staged": count, "duplicates": 0}));
        ids
    }

    /// The totals of `status --json`.
    pub(crate) fn totals(&self) -> Value {
        self.ok(["status", "--json"]).json()["total"].clone()
    }

    /// How often each event id is in files of CloudEvents lines.
    pub(crate) fn delivered(&self, files: &[&str]) -> BTreeMap<String, u32> {
        let mut seen = BTreeMap::new();
        for file in files {
            let text = if self.path(file).exists() { self.read(file) } else { String::new() };
            assert!(text.is_empty() || text.ends_with('\n'), "the last line of {file} is not complete");
            for line in text.lines() {
                let event: Value = serde_json::from_str(line).unwrap();
                *seen.entry(event["id"].as_str().unwrap().to_owned()).or_insert(0) += 1;
            }
        }
        seen
    }

    /// The numbers of a query with one column, on the SQLite database.
    pub(crate) fn numbers(&self, sql: &'static str) -> Vec<i64> {
        use sqlx::Connection as _;
        let url = format!("sqlite://{}", self.path("pillarbox.db").display());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
            sqlx::query_scalar(sql).fetch_all(&mut connection).await.unwrap()
        })
    }

    /// Runs SQL on the SQLite database, as another program would.
    pub(crate) fn sql(&self, sql: &'static str) {
        use sqlx::Connection as _;
        let url = format!("sqlite://{}", self.path("pillarbox.db").display());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
            sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        });
    }
}

/// A command that is still running; killed when it is dropped.
pub(crate) struct Running(Option<Child>);

impl Running {
    /// A command that was started elsewhere.
    pub(crate) fn of(child: Child) -> Self {
        Self(Some(child))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&mut self, name: &str) {
        let kill = format!("kill -{name} {}", self.child().id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub(crate) fn kill(mut self) {
        let child = self.child();
        child.kill().unwrap();
        child.wait().unwrap();
        self.0 = None;
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child().try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Said {
        eventually("the command ends", || self.has_ended());
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something is so, and fails when it takes too long.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "there is no runtime in these tests: they poll with a deadline"
)]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not come to be that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The PostgreSQL server of the tests. Without one a test fails: it must not seem to have run.
pub(crate) fn postgres() -> String {
    server("PILLARBOX_TEST_POSTGRES")
}

/// The PgBouncer in front of it, in transaction mode.
pub(crate) fn pgbouncer() -> String {
    server("PILLARBOX_TEST_PGBOUNCER")
}

/// The MariaDB of the tests, or MySQL in its place.
pub(crate) fn mysql() -> String {
    server("PILLARBOX_TEST_MYSQL")
}

/// A database of the MongoDB of the tests.
pub(crate) fn mongodb() -> String {
    server("PILLARBOX_TEST_MONGODB").replace("/?", "/cli?")
}

fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run this through `cargo xtask services all mongodb -- cargo test`")
    })
}
