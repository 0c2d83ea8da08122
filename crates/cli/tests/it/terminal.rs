//! What a person at a terminal sees. `script` of util-linux is the terminal.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};

use crate::home::{Home, Running, Said, eventually};

/// What Ctrl-C types.
const CTRL_C: &[u8] = b"\x03";

/// A program in front of a terminal. Killed when it is dropped.
struct Terminal {
    process: Running,
    keys: ChildStdin,
    screen: PathBuf,
}

impl Terminal {
    /// Starts the binary in a terminal of its own.
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let meant = home.command(arguments);
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let line: Vec<String> = [crate::PROGRAM].iter().chain(arguments).map(|text| quoted(text)).collect();
        let screen = home.path("screen");
        // It passes on the exit code, and each line as soon as it is there. `exec`: some shells would stay in front of the
        // binary, be interrupted with it, and end with a code of their own.
        let mut command = Command::new("script");
        command.args([
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &format!("exec {}", line.join(" ")),
            "/dev/null",
        ]);
        command.current_dir(home.path(".")).stdin(Stdio::piped()).stderr(Stdio::null());
        command.stdout(File::create(&screen).unwrap());
        for (name, value) in meant.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn().expect("`script` of util-linux is installed");
        let keys = child.stdin.take().unwrap();
        Self { process: Running::of(child), keys, screen }
    }

    /// Everything that was written to the terminal so far.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.screen).unwrap()).into_owned()
    }

    #[track_caller]
    fn shows(&self, words: &str) {
        eventually(&format!("the terminal shows {words:?}"), || self.shown().contains(words));
    }

    /// Types Ctrl-C and waits for the end.
    fn interrupt(mut self) -> (Said, String) {
        self.keys.write_all(CTRL_C).unwrap();
        self.keys.flush().unwrap();
        let screen = self.screen.clone();
        let said = self.process.end();
        (said, String::from_utf8_lossy(&std::fs::read(screen).unwrap()).into_owned())
    }
}

#[test]
fn the_demo_leaves_its_page_open_on_a_terminal_until_ctrl_c() {
    let home = Home::new();
    let terminal = Terminal::start(&home, &["demo", "--events", "60", "--seed", "7"]);
    terminal.shows("nothing lost, nothing invented, nothing applied twice");
    terminal.shows(" until Ctrl-C");
    let shown = terminal.shown();
    let (_, address) = shown.rsplit_once("the page stays at http://").unwrap();
    let (address, _) = address.split_once('/').unwrap();
    let page = crate::dashboard::get(address, "/");
    assert!(page.contains("Overview") && page.contains("data-may-act=\"true\""), "{page}");
    let status = crate::dashboard::get(address, "/api/v1/status");
    assert!(status.contains("\"delivered\""), "{status}");
    let (said, shown) = terminal.interrupt();
    assert_eq!(said.code, 0, "{shown}");
    assert!(std::net::TcpStream::connect(address).is_err(), "the page is gone");
}

#[test]
fn a_relay_on_a_terminal_draws_its_state_in_one_line() {
    let home = Home::migrated();
    home.write("pillarbox.toml", "[routes.a]\nto = \"file:a.ndjson\"\n[routes.b]\nto = \"file:b.ndjson\"\n");
    let terminal = Terminal::start(&home, &["relay"]);
    terminal.shows("2 routes · 0 delivered");
    home.stage_many("a", 3);
    terminal.shows("2 routes · 3 delivered");
    let (said, shown) = terminal.interrupt();
    assert_eq!(said.code, 0, "{shown}");
    // Each state is drawn in the place of the one before, and the last one is wiped away.
    let states: Vec<&str> = shown.split('\r').filter(|part| part.contains(" routes · ")).collect();
    assert!(states.len() > 1 && states.iter().all(|state| !state.contains('\n')), "{shown:?}");
    assert!(!shown.trim_end().ends_with("dead"), "{shown:?}");
}
