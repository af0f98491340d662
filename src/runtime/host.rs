//! The host: one running procession.

use std::path::PathBuf;

use crate::protocol::call::{Answer, Call, Origin};
use crate::protocol::error::Error;
use crate::protocol::settings::HostSettings;

/// How a host is made.
#[derive(Clone, Debug)]
pub struct HostBuilder {
    settings: HostSettings,
    directory: Option<PathBuf>,
    environment: Option<Vec<(std::ffi::OsString, std::ffi::OsString)>>,
}

/// One running procession. Cheap to clone; the last clone's drop ends everything it started.
#[derive(Clone, Debug)]
pub struct Host {
    settings: std::sync::Arc<HostSettings>,
}

impl HostBuilder {
    /// Runs with these settings instead of the defaults.
    #[must_use]
    pub fn settings(mut self, settings: HostSettings) -> Self {
        self.settings = settings;
        self
    }
    /// The directory of sessions that name none; absent = the current one.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }
    /// Starts the host. Must be called within a tokio runtime.
    pub async fn start(self) -> Result<Host, Error> {
        Ok(Host { settings: std::sync::Arc::new(self.settings) })
    }
}

impl Host {
    /// A host with the default settings.
    pub fn builder() -> HostBuilder {
        HostBuilder { settings: crate::config::defaults(), directory: None, environment: None }
    }
    /// What it runs with.
    pub fn settings(&self) -> &HostSettings {
        &self.settings
    }
    /// Makes one call.
    pub async fn call(&self, _origin: Origin, _call: Call) -> Result<Answer, Error> {
        Err(Error::internal("not yet"))
    }
}
