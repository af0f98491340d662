//! From sources to settings.
//!
//! ```text
//! default < front end < file < environment < flags     one checked layer each
//!            └──────── merged by `config` ────────┘
//! profile P, key k  =  session.P.k  if anybody gave it, else  k
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use config::{Config, Map, Source, Value, ValueKind};
use serde::Serialize;
use serde_json::Value as Json;

use super::error::ConfigError;
use super::keys::{HOST, Key, SESSION};
use super::layer::Layer;
use super::place::{DEFAULT_PROFILE, Scope, has_base};
use super::value::{from_json, show, to_json};
use super::{file, shell};
use crate::protocol::settings::{
    BrokerSettings, EnvInherit, EnvSettings, ExecSettings, HostLimits, HostSettings, McpSettings, OutputSettings,
    OwnerSettings, SessionLimits, SessionSettings, StopSettings,
};
use crate::protocol::state::{ContainmentKind, Signal};

/// The source of a value nobody gave.
const DEFAULT: &str = "default";

/// Where values come from, weakest first.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What the front end prefers where nobody says anything: `env.inherit = "filtered"` of `procession mcp`.
    pub preferred: Vec<(String, Json)>,
    /// The file; named and missing is an error, none is not.
    pub file: Option<PathBuf>,
    /// The environment: variables that begin with `PROCESSION__` are read, `PATH` is searched for a shell.
    pub environment: Vec<(String, String)>,
    /// Dotted key → value, strongest.
    pub flags: Vec<(String, Json)>,
}

/// Settings, and what each came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What to run with.
    pub settings: HostSettings,
    /// Every key of the host and of every profile, in the order of the tables.
    pub report: Vec<KeyReport>,
}

/// One key as it was resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyReport {
    /// The dotted name, with its profile (`session.default.stop.grace_ms`).
    pub key: String,
    /// The value; null = none.
    pub value: Json,
    /// `default`, `front end`, `file PATH`, `environment NAME` or `flag --KEY`.
    pub source: String,
}

/// Reads, checks and merges all sources. Blocks while the file is read.
///
/// # Errors
/// The first key that is unknown, given twice, of the wrong kind or out of bounds; a file that cannot be read.
pub fn load(sources: Sources) -> Result<Loaded, ConfigError> {
    let shell = [("shell".to_owned(), Json::from(shell::detect(&sources).to_vec()))];
    let mut layers = vec![
        pairs_layer(&shell, |_| DEFAULT.to_owned())?,
        pairs_layer(&sources.preferred, |_| "front end".to_owned())?,
    ];
    if let Some(path) = &sources.file {
        let source = format!("file {}", path.display());
        layers.push(Layer::of_table(Scope::Host, file::read(path, &source)?, &source)?);
    }
    layers.push(Layer::of_environment(&sources.environment)?);
    layers.push(pairs_layer(&sources.flags, |key| format!("flag --{key}"))?);

    let mut profiles = BTreeSet::from([DEFAULT_PROFILE.to_owned()]);
    let mut builder = Config::builder();
    for layer in layers {
        profiles.extend(layer.profiles().iter().cloned());
        builder = builder.add_source(layer);
    }
    let merged = builder.build().and_then(|config| config.collect()).map_err(|error| ConfigError {
        key: "configuration".to_owned(),
        given: error.to_string(),
        expected: "sources that can be merged".to_owned(),
        source: "all sources".to_owned(),
        nearest: None,
    })?;
    resolve(&merged, profiles)
}

/// What a host runs with where nobody says anything.
pub fn defaults() -> HostSettings {
    load(Sources::default()).expect("the table's own defaults are within its bounds, as a test shows").settings
}

/// One session's settings: the profile, and over it the `config` that `open_session` was given. Nested objects
/// and dotted names are both taken.
///
/// # Errors
/// As [`load`], for the first key in the order of names.
pub fn narrow(
    profile: &SessionSettings,
    overrides: &serde_json::Map<String, Json>,
) -> Result<SessionSettings, ConfigError> {
    const SOURCE: &str = "config of the session";
    let table = overrides.iter().map(|(name, value)| (name.clone(), from_json(SOURCE, value))).collect();
    let layer = Layer::of_table(Scope::Session, table, SOURCE)?;
    let mut settings = profile.clone();
    for key in SESSION {
        if let Some(value) = layer.values().get(key.name) {
            fill(key, &mut settings, value)?;
        }
    }
    Ok(settings)
}

fn pairs_layer(pairs: &[(String, Json)], source: impl Fn(&str) -> String) -> Result<Layer, ConfigError> {
    let mut layer = Layer::default();
    for (key, value) in pairs {
        let source = source(key);
        layer.add(Scope::Host, key, from_json(&source, value), &source)?;
    }
    Ok(layer)
}

fn resolve(merged: &Map<String, Value>, profiles: BTreeSet<String>) -> Result<Loaded, ConfigError> {
    let mut settings = blank_host();
    let mut report = Vec::new();
    for key in HOST {
        let value = value_at(merged, key.name).unwrap_or_else(|| unsaid(key));
        fill(key, &mut settings, &value)?;
        report.push(row(key.name.to_owned(), &value));
    }
    for profile in profiles {
        let mut session = blank_session();
        for key in SESSION {
            let name = format!("session.{profile}.{}", key.name);
            let base = || has_base(key).then(|| value_at(merged, key.name)).flatten();
            let value = value_at(merged, &name).or_else(base).unwrap_or_else(|| unsaid(key));
            fill(key, &mut session, &value)?;
            report.push(row(name, &value));
        }
        settings.profiles.insert(profile, session);
    }
    Ok(Loaded { settings, report })
}

fn value_at(merged: &Map<String, Value>, name: &str) -> Option<Value> {
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let value = merged.get(first)?;
    match (rest, &value.kind) {
        (None, _) => Some(value.clone()),
        (Some(rest), ValueKind::Table(table)) => value_at(table, rest),
        (Some(_), _) => None,
    }
}

fn unsaid<T>(key: &Key<T>) -> Value {
    from_json(DEFAULT, &(key.default)())
}

fn row(key: String, value: &Value) -> KeyReport {
    KeyReport { key, value: to_json(value), source: value.origin().unwrap_or(DEFAULT).to_owned() }
}

fn fill<T>(key: &Key<T>, settings: &mut T, value: &Value) -> Result<(), ConfigError> {
    (key.set)(settings, to_json(value)).map_err(|error| ConfigError {
        key: key.name.to_owned(),
        given: show(&value.kind),
        expected: format!("{} ({error})", key.shape.expected()),
        source: value.origin().unwrap_or(DEFAULT).to_owned(),
        nearest: None,
    })
}

// Something for the keys to fill, and nothing to run with: no number here survives, as a test shows.
fn blank_host() -> HostSettings {
    HostSettings {
        limits: HostLimits { live_per_host: 0, finished_per_host: 0, sessions: 0, timeout_max_ms: None },
        auto_open: false,
        broker: BrokerSettings { path: None, spares: 0 },
        owner: OwnerSettings { heartbeat_ms: 0, heartbeat_grace_ms: 0 },
        mcp: McpSettings { call_max_ms: 0, answer_bytes: 0 },
        profiles: BTreeMap::new(),
    }
}

fn blank_session() -> SessionSettings {
    SessionSettings {
        directory: None,
        limits: SessionLimits {
            live_per_session: 0,
            finished_per_session: 0,
            parked_calls_per_session: 0,
            timeout_max_ms: None,
        },
        output: OutputSettings {
            retain_bytes: 0,
            page_bytes: 0,
            wait_for_reader: false,
            drain_idle_ms: 0,
            drain_max_ms: 0,
        },
        exec: ExecSettings { timeout_ms: 0, max_output_bytes: 0 },
        start_timeout_ms: 0,
        stop: StopSettings { grace_ms: 0, confirm_ms: 0, signal: Signal::Kill },
        shell: Vec::new(),
        env: EnvSettings { inherit: EnvInherit::None, pass: Vec::new(), deny: Vec::new() },
        cwd_outside: false,
        containment_require: ContainmentKind::Group,
    }
}
