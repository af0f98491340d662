//! Every key: its name, the field it fills, what it takes, its default, and where the number comes from.
//!
//! Names, bounds, defaults, messages, reports and tests all derive from these two tables; a key is added by
//! adding its line and its field. A session's key may stand at the top level, where it is the base of every
//! profile, and in a profile `[session.NAME]`; a host's key stands at the top level only. `limits.timeout_max_ms`
//! is in both: the host's at the top level, the session's own inside a profile.

use serde_json::{Value as Json, json};

use super::shape::Shape::{self, Bytes, Count, Directory, File, Flag, Ms, OneOf, Patterns, Program};
use crate::protocol::settings::{HostSettings, SessionSettings};

/// One key that fills a field of `T`.
#[derive(Debug)]
pub struct Key<T: 'static> {
    /// The dotted name, without a profile.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// What it is where nobody says anything; null = none.
    pub default: fn() -> Json,
    /// Where the default comes from.
    pub note: &'static str,
    pub(super) set: fn(&mut T, Json) -> serde_json::Result<()>,
}

/// The bound of a `_ms` that has no other: 365 days.
pub const MS_MAX: u64 = 31_536_000_000;
/// The bound of a `_bytes` that has no other: 1 GiB.
pub const BYTES_MAX: u64 = 1 << 30;
/// The bound of a count that has no other.
pub const COUNT_MAX: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

const SIGNALS: Shape = OneOf(&["TERM", "INT", "HUP", "QUIT", "KILL"]);
const INHERIT: Shape = OneOf(&["core", "filtered", "all", "none"]);
/// What a system of this kind can always do.
const CONTAINMENT_DEFAULT: &str = if cfg!(target_os = "linux") { "subtree" } else { "group" };
const CONTAINMENT: Shape = OneOf(&["group", "subtree", "cgroup"]);

macro_rules! keys {
    ($(#[$doc:meta])* $table:ident of $settings:ty {
        $($name:literal => $($field:ident).+, $shape:expr, $default:tt, $note:literal;)+
    }) => {
        $(#[$doc])*
        pub static $table: &[Key<$settings>] = &[$(Key {
            name: $name,
            shape: $shape,
            default: || json!($default),
            note: $note,
            set: |settings, value| {
                settings.$($field).+ = serde_json::from_value(value)?;
                Ok(())
            },
        }),+];
    };
}

keys! {
    /// The keys of the host.
    HOST of HostSettings {
        "limits.live_per_host"     => limits.live_per_host, Count(1, 100_000), 32, "Raw";
        "limits.finished_per_host" => limits.finished_per_host, Count(0, COUNT_MAX), 10_000, "Raw";
        "limits.sessions"          => limits.sessions, Count(0, COUNT_MAX), 1_000, "ours";
        "limits.timeout_max_ms"    => limits.timeout_max_ms, Ms(1, MS_MAX), null, "Forge: none";
        "sessions.auto_open"       => auto_open, Flag, true, "ours";
        "broker.path"              => broker.path, File, null, "none: this program after `init`, else beside it";
        "broker.spares"            => broker.spares, Count(1, 64), 2, "ours";
        "owner.heartbeat_ms"       => owner.heartbeat_ms, Ms(10, 3_600_000), 5_000, "Forge";
        "owner.heartbeat_grace_ms" => owner.heartbeat_grace_ms, Ms(0, MS_MAX), 30_000, "Forge; 0 = off";
        "mcp.call_max_ms"          => mcp.call_max_ms, Ms(1_000, 600_000), 50_000, "clients drop a call at 60 s";
        "mcp.answer_bytes"         => mcp.answer_bytes, Bytes(0, BYTES_MAX), 16_384, "clients cut longer answers";
    }
}

keys! {
    /// The keys of a session.
    SESSION of SessionSettings {
        "directory"                       => directory, Directory, null, "none: the host's own";
        "limits.live_per_session"         => limits.live_per_session, Count(1, 10_000), 8, "Raw";
        "limits.finished_per_session"     => limits.finished_per_session, Count(0, COUNT_MAX), 100, "Raw";
        "limits.parked_calls_per_session" => limits.parked_calls_per_session, Count(0, COUNT_MAX), 1_000, "ours";
        "limits.timeout_max_ms"           => limits.timeout_max_ms, Ms(1, MS_MAX), null, "Forge: none";
        "output.retain_bytes"             => output.retain_bytes, Bytes(4_096, BYTES_MAX), 1_048_576, "Raw";
        "output.page_bytes"               => output.page_bytes, Bytes(1, MIB), 65_536, "Raw";
 "output.wait_for_reader"          => output.wait_for_reader, Flag, false, "`run` turns it on";
        "output.drain_idle_ms"            => output.drain_idle_ms, Ms(0, MS_MAX), 250, "OpenClaw";
        "output.drain_max_ms"             => output.drain_max_ms, Ms(0, MS_MAX), 5_000, "ours";
        "exec.timeout_ms"                 => exec.timeout_ms, Ms(0, MS_MAX), 1_800_000, "OpenClaw; 0 = none";
        "exec.max_output_bytes"           => exec.max_output_bytes, Bytes(0, BYTES_MAX), 200_000, "OpenClaw";
        "start.timeout_ms"                => start_timeout_ms, Ms(0, MS_MAX), 0, "Raw; 0 = none";
        "stop.grace_ms"                   => stop.grace_ms, Ms(0, 60_000), 5_000, "OpenClaw";
        "stop.confirm_ms"                 => stop.confirm_ms, Ms(100, 60_000), 4_000, "OpenClaw";
        "stop.signal"                     => stop.signal, SIGNALS, "TERM", "OpenClaw";
        "shell"                           => shell, Program, ["sh", "-c"], "[bash, -c] where PATH has bash";
        "env.inherit"                     => env.inherit, INHERIT, "core", "mcp prefers filtered, run prefers all";
        "env.pass"                        => env.pass, Patterns, [], "nothing more";
        "env.deny"                        => env.deny, Patterns,
            ["LD_*", "DYLD_*", "BASH_ENV", "ENV", "IFS", "GCONV_PATH"], "OpenClaw: what makes a program load code";
        "cwd.outside"                     => cwd_outside, Flag, false, "ours";
        "containment.require"             => containment_require, CONTAINMENT, CONTAINMENT_DEFAULT, "the best that the system has everywhere";
    }
}
