//! One source's values, checked: dotted name → value of the right kind, each carrying where it came from.
//!
//! Nested tables and dotted names say the same thing and may be mixed; saying one key twice in one source is an
//! error, because which of the two would win is nobody's to guess.

use std::collections::{BTreeMap, BTreeSet};

use config::{Map, Source, Value, ValueKind};

use super::error::ConfigError;
use super::place::{Place, Scope, profile_of};
use super::shape::Misfit;
use super::value::{shorten, show};

/// What variables of ours begin with. One underscore is somebody else's.
pub const ENVIRONMENT_PREFIX: &str = "PROCESSION__";

/// One source's values.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    values: BTreeMap<String, Value>,
    profiles: BTreeSet<String>,
}

impl Layer {
    /// Checks and takes a nested table, or a table of dotted names.
    pub fn of_table(scope: Scope, table: Map<String, Value>, source: &str) -> Result<Self, ConfigError> {
        let mut layer = Layer::default();
        layer.add_table(scope, None, table, source)?;
        Ok(layer)
    }

    /// Checks and takes the variables that are ours: `PROCESSION__STOP__GRACE_MS` is `stop.grace_ms`.
    pub fn of_environment(variables: &[(String, String)]) -> Result<Self, ConfigError> {
        let mut layer = Layer::default();
        for (variable, text) in variables {
            let Some(rest) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
            let name = rest.to_ascii_lowercase().replace("__", ".");
            let source = format!("environment {variable}");
            let given = ValueKind::from(text.as_str());
            let value = match Scope::Host.find(&name) {
                Place::Key(shape) => shape.read(&source, text).map_err(|misfit| refused(&name, &source, misfit))?,
                place => return Err(no_key(&name, &source, &given, place)),
            };
            layer.add_value(name, value, &source)?;
        }
        Ok(layer)
    }

    /// Checks and takes one value, which may be a table, under a dotted name.
    pub fn add(&mut self, scope: Scope, name: &str, value: Value, source: &str) -> Result<(), ConfigError> {
        match (scope.find(name), value.kind) {
            (Place::Key(shape), kind) => {
                let value = Value::new(Some(&source.to_owned()), kind);
                let value = shape.check(value).map_err(|misfit| refused(name, source, misfit))?;
                self.add_value(name.to_owned(), value, source)
            }
            (Place::Section, ValueKind::Table(table)) => {
                self.note_profile(name);
                self.add_table(scope, Some(name), table, source)
            }
            // Down to the first leaf: `limts.live_per_host` says more than `limts`, and finds what was meant.
            (Place::Unknown { .. }, ValueKind::Table(table)) if !table.is_empty() => {
                self.add_table(scope, Some(name), table, source)
            }
            (place, kind) => Err(no_key(name, source, &kind, place)),
        }
    }

    /// The values, by dotted name.
    pub fn values(&self) -> &BTreeMap<String, Value> {
        &self.values
    }

    /// The profiles that were named, also those nothing was said about.
    pub fn profiles(&self) -> &BTreeSet<String> {
        &self.profiles
    }

    fn add_table(
        &mut self,
        scope: Scope,
        prefix: Option<&str>,
        table: Map<String, Value>,
        source: &str,
    ) -> Result<(), ConfigError> {
        // Sorted, so that of several mistakes the same one is always reported.
        for (name, value) in table.into_iter().collect::<BTreeMap<_, _>>() {
            let name = match prefix {
                Some(prefix) => format!("{prefix}.{name}"),
                None => name,
            };
            self.add(scope, &name, value, source)?;
        }
        Ok(())
    }

    fn add_value(&mut self, name: String, value: Value, source: &str) -> Result<(), ConfigError> {
        self.note_profile(&name);
        match self.values.get(&name) {
            None => {
                self.values.insert(name, value);
                Ok(())
            }
            Some(first) => {
                let given = format!("{} and {}", show(&first.kind), show(&value.kind));
                let expected = "one value: it is given twice".to_owned();
                Err(ConfigError { key: name, given, expected, source: source.to_owned(), nearest: None })
            }
        }
    }

    fn note_profile(&mut self, name: &str) {
        self.profiles.extend(profile_of(name).map(str::to_owned));
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    // The `config` package splits the dotted names and merges; every name here is one of ours.
    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        Ok(self.values.clone().into_iter().collect())
    }
}

fn refused(name: &str, source: &str, misfit: Misfit) -> ConfigError {
    let Misfit { given, expected, nearest } = misfit;
    ConfigError { key: name.to_owned(), given, expected, source: source.to_owned(), nearest }
}

fn no_key(name: &str, source: &str, given: &ValueKind, place: Place) -> ConfigError {
    let (expected, nearest) = match place {
        Place::Unknown { expected, nearest } => (expected, nearest),
        Place::Key(_) | Place::Section => ("a table of keys".to_owned(), None),
    };
    ConfigError { key: shorten(name), given: show(given), expected, source: source.to_owned(), nearest }
}
