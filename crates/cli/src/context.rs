//! What a command works with: its configuration, its database, its output.

use std::path::{Path, PathBuf};

use clap::Args;
use pillarbox_core::{Event, RouteName, redact_url};

use crate::config::{self, Config};
use crate::database::{self, Database, DatabaseOptions};
use crate::fault::Fault;
use crate::logging;
use crate::output::{Output, quoted};

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// The configuration file [default: pillarbox.toml if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The database: sqlite://FILE, postgres://…, mysql://…, mariadb://… or mongodb://…. If it is not given,
    /// database.url of the configuration counts, then the variable DATABASE_URL. Keep passwords in the variable:
    /// other users can see options
    /// [default: sqlite://pillarbox.db]
    #[arg(long, global = true, value_name = "URL")]
    pub database: Option<String>,
    /// Print data as JSON: one object, or one object per line for lists
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only errors on stderr
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// The configuration and the output of a command.
#[derive(Debug)]
pub struct Context {
    /// Where it writes.
    pub out: Output,
    /// What the file says; the defaults without one.
    pub(crate) config: Config,
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    database: Option<String>,
    /// The file, if it was named on the command line.
    named: Option<PathBuf>,
}

impl Context {
    /// Reads the configuration and says what will hurt in it.
    pub fn load(globals: &Globals, out: Output) -> Result<Self, Fault> {
        let default = Path::new(config::FILE_DEFAULT);
        let file = globals.config.clone().or_else(|| default.exists().then(|| default.to_owned()));
        let mut config = Config::default();
        if let Some(file) = &file {
            let loaded = config::load(file)?;
            logging::use_format(loaded.config.log.format);
            loaded.warnings.iter().for_each(|warning| out.warn(warning));
            config = loaded.config;
        }
        Ok(Self { out, config, file, database: globals.database.clone(), named: globals.config.clone() })
    }

    /// The database of the option alone: a demo or a measurement never writes to one that was not named for it.
    pub fn database_option(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// How a command that is advised begins, so that it means the same database when it is typed. A URL with a password
    /// is not repeated.
    pub fn again(&self) -> String {
        let mut again = "pillarbox".to_owned();
        if let Some(file) = &self.named {
            again.push_str(&format!(" --config {}", quoted(&file.to_string_lossy())));
        }
        if let Some(url) = self.database.as_ref().filter(|url| redact_url(url) == **url) {
            again.push_str(&format!(" --database {}", quoted(url)));
        }
        again
    }

    /// The database to work on: named by the option, the file, the environment, or by nobody.
    pub fn database_url(&self) -> String {
        self.database
            .clone()
            .or_else(|| self.config.database.url.clone())
            .or_else(|| std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty()))
            .unwrap_or_else(|| config::DATABASE_DEFAULT.to_owned())
    }

    /// The names of the tables.
    pub fn database_options(&self) -> DatabaseOptions {
        DatabaseOptions {
            prefix: self.config.database.prefix.as_ref().map(|name| name.0.clone()),
            schema: self.config.database.schema.as_ref().map(|name| name.0.clone()),
            causal_order: self.config.causal_order(),
            insecure: self.config.database.insecure,
            connections: None,
            create_schema: false,
        }
    }

    /// Refuses an event that its route, as configured, cannot take.
    pub fn check_order(&self, route: &RouteName, event: &Event) -> Result<(), Fault> {
        match self.config.routes.get(route) {
            Some(config) if config.ordered => Ok(event.check_ordered()?),
            _ => Ok(()),
        }
    }

    /// Connects without looking at the tables. A SQLite file that is not there is created.
    pub async fn connect(&self) -> Result<Database, Fault> {
        self.connect_with(self.database_options()).await
    }

    /// The same with other options than those of the configuration.
    pub async fn connect_with(&self, options: DatabaseOptions) -> Result<Database, Fault> {
        database::connect(&self.database_url(), options).await
    }

    /// Connects without creating anything: for a SQLite file that is not there, an empty database stands in.
    pub async fn connect_to_look(&self, options: DatabaseOptions) -> Result<Database, Fault> {
        let url = self.database_url();
        let url = if database::is_missing_file(&url) { "sqlite::memory:" } else { &url };
        database::connect(url, options).await
    }

    /// Connects and refuses tables that are missing, older, newer or damaged.
    pub async fn open(&self) -> Result<Database, Fault> {
        let url = self.database_url();
        database::refuse_missing_file(&url)?;
        let database = self.connect().await?;
        let state = database.schema.inspect().await.map_err(|error| at(&url, error.into()))?;
        if let pillarbox_core::port::SchemaState::Ready { warnings } = &state {
            warnings.iter().for_each(|warning| self.out.warn(warning));
        }
        state.check().map_err(|error| at(&url, error.into()))?;
        Ok(database)
    }
}

/// Says which database it was.
fn at(url: &str, fault: Fault) -> Fault {
    fault.context(&redact_url(url))
}

/// The name of the operator, for the audit trail.
pub(crate) fn operator() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    user.filter(|user| pillarbox_core::check_name("user", user).is_ok())
        .unwrap_or_else(|| "operator".to_owned())
}
