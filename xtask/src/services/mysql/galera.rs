//! A Galera cluster of two MariaDB nodes that replicate to each other.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Facts, Ground, Node, ROLE, Server, Up, mariadb, shelf};
use crate::Result;
use crate::process::Running;

const LIBRARY: &str = "/usr/lib/galera/libgalera_smm.so";
/// How the second node gets everything that the first one has. The script is in a package that makes a database of its own
/// when it is installed, so it is unpacked.
const RSYNC: &str = "/usr/bin/rsync";
const SCRIPTS: &str = "mariadb-server";

pub(crate) struct Galera;

impl Server for Galera {
    fn name(&self) -> &'static str {
        "galera"
    }

    fn role(&self) -> &'static str {
        ROLE
    }

    fn packages(&self) -> &'static [&'static str] {
        &["mariadb-server-core", "mariadb-client-core", "galera-4", "rsync", "procps", "iproute2"]
    }

    fn is_installed(&self) -> bool {
        mariadb::is_installed() && [LIBRARY, RSYNC].iter().all(|path| Path::new(path).exists())
    }

    fn start(&self, ground: &Ground, _before: &[Facts]) -> Result<Up> {
        let first = Member::new(ground, "galera")?;
        mariadb::make(ground, &first.node)?;
        let new = ["--wsrep-new-cluster".to_owned(), "--wsrep-cluster-address=gcomm://".to_owned()];
        let one = first.start(ground, &new)?;

        // The second one starts empty, and is sent everything, also its account.
        let mut second = Member::new(ground, "galera-peer")?;
        second.node.password.clone_from(&first.node.password);
        ground.subdirectory(&second.node.data())?;
        let join = [format!("--wsrep-cluster-address=gcomm://127.0.0.1:{}", first.replication)];
        let two = second.start(ground, &join)?;

        let mut facts = super::facts(self.name(), &first.node);
        facts.variables.push(("PILLARBOX_TEST_MYSQL_SECOND", second.node.url()));
        Ok(Up { facts, processes: vec![two, one] })
    }
}

/// A node and its ports for the other one.
struct Member {
    node: Node,
    name: &'static str,
    /// Where it hears what the other one commits.
    replication: u16,
    /// Where it receives what it missed, and where everything.
    missed: u16,
    everything: u16,
}

impl Member {
    fn new(ground: &Ground, name: &'static str) -> Result<Self> {
        let node = Node::new(ground, name)?;
        let (replication, missed, everything) = (ground.port()?, ground.port()?, ground.port()?);
        Ok(Self { node, name, replication, missed, everything })
    }

    /// Starts it. A node greets its clients when it has everything.
    fn start(&self, ground: &Ground, cluster: &[String]) -> Result<Running> {
        let scripts = scripts(ground, &self.node.directory)?;
        let mut program = ground.command("env", super::STOP);
        program.arg(format!("PATH={}:/usr/bin:/bin:/usr/sbin:/sbin", scripts.display()));
        program.args([mariadb::PROGRAM, "--no-defaults", "--innodb-log-file-size=64M"]);
        program.args(["--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON"]);
        program.args([&format!("--wsrep-provider={LIBRARY}"), "--wsrep-cluster-name=pillarbox"]);
        program.args(["--wsrep-sst-method=rsync", &format!("--wsrep-node-name={}", self.name)]);
        program.arg(format!("--wsrep-node-address=127.0.0.1:{}", self.replication));
        program.arg(format!("--wsrep-sst-receive-address=127.0.0.1:{}", self.everything));
        program.arg(format!(
            "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{};ist.recv_addr=127.0.0.1:{};gcache.size=32M",
            self.replication, self.missed
        ));
        self.node.start(ground, self.name, program.args(cluster))
    }
}

/// The scripts that send everything to a node, where the servers' account can run them.
fn scripts(ground: &Ground, directory: &Path) -> Result<PathBuf> {
    let unpacked = shelf::once("galera", SCRIPTS, |workshop| {
        let script = "apt-get -q download \"$0\" && dpkg -x \"$0\"_*.deb . && rm \"$0\"_*.deb";
        ground.run(Command::new("sh").args(["-c", script, SCRIPTS]).current_dir(workshop))
    })?;
    let scripts = directory.join("scripts");
    ground.run(Command::new("cp").arg("-r").arg(unpacked.join("usr/bin")).arg(&scripts))?;
    Ok(scripts)
}
