//! `status`: everything that is known about one process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::id::Handle;

/// Which process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetStatus {
    /// Its id, or a label.
    pub process_id: Handle,
}
