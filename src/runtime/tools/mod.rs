//! The model's door: procession as tools that a language model calls, of which MCP is a thin wrapper.
//!
//! ```text
//! arguments ── lenient ──> Call ── host ──> Answer ── answer ──> value ── shorten ──> ToolResult
//! ```
//!
//! Invariant: [`call_tool`] is total. It never panics, never outlives `mcp.call_max_ms` by more than the time the
//! host takes to answer, and what a model can mend comes back as a result that says how.
//!
//! Deliberately absent: any type of MCP, sessions and agents as arguments (who calls is the embedder's to say), and
//! the verbs of the operator.

mod answer;
mod call;
mod describe;
mod lenient;
mod schema;
mod shorten;
mod spec;
mod text;

pub use answer::ToolResult;
pub use tokio_util::sync::CancellationToken;

pub use call::call_tool;
pub use spec::{Style, ToolSpec, specs};
