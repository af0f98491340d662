//! The command line: arguments, settings, logs, and one exit code.
//!
//! Mistakes of ours are one line on standard error and exit code 125. Logs go to standard error, as
//! `PROCESSION_LOG` says (`warn` where it is not set).

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;

use super::ending::shut_down;
use super::run::{self, OURS, complain};
use super::signals::Ends;
use super::{mcp, rpc};
use crate::protocol::call::{Caller, Origin};
use crate::protocol::error::Error;
use crate::protocol::id::{AgentName, SessionName};
use crate::protocol::spec::Spec;
use crate::runtime::Host;
use crate::runtime::settings::{Loaded, Sources, load};

/// What `run` keeps between the command and its reader: enough for what is under way, so that nothing is dropped.
const RUN_RETAIN_BYTES: u64 = 4 * 1024 * 1024;

/// Owns background processes for agents: starts them, keeps their output, ends them with all their children.
#[derive(Debug, Parser)]
#[command(name = "procession", version, about, max_term_width = 100, subcommand_required = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Common {
    /// Configuration file [default: procession/config.toml in $XDG_CONFIG_HOME or ~/.config, if there]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, over file and environment; may be given several times
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, Value)>,
    /// Directory of the sessions [default: the current one]
    #[arg(long, global = true, value_name = "DIR")]
    directory: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command in the foreground and end its whole tree with it
    ///
    /// Exit code: the command's; 128+n for a signal; 124 at the deadline; 126/127 as a shell; 125 for a mistake of
    /// ours; 4 if it is not proven that nothing is left. The command waits for whoever reads its output.
    Run(Run),
    /// Serve a model over MCP on standard input and output
    Mcp(Mcp),
    /// Serve a program over JSON lines on standard input and output
    Rpc,
    /// Show every setting and where it comes from
    Config(Config),
}

#[derive(Debug, Args)]
struct Run {
    /// End the command after so many milliseconds; 0 = never
    #[arg(long, value_name = "N")]
    timeout_ms: Option<u64>,
    /// Milliseconds between the stop signal and KILL
    #[arg(long, value_name = "N")]
    grace_ms: Option<u64>,
    /// Working directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Give the words, joined by spaces, to the shell
    #[arg(long)]
    shell: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct Mcp {
    /// The session whose processes these are
    #[arg(long, value_name = "NAME", default_value = "mcp")]
    session: SessionName,
    /// The agent that calls
    #[arg(long, value_name = "NAME", default_value = "main")]
    agent: AgentName,
}

#[derive(Debug, Args)]
struct Config {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// The whole program. Blocks until it is done.
pub fn main() -> ExitCode {
    if let Err(error) = crate::runtime::init() {
        complain(&error.message);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help) if !help.use_stderr() => {
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            complain(&first_paragraph(&error.to_string()));
            return ExitCode::from(OURS);
        }
    };
    log_to_stderr();
    match perform(cli) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            complain(&message);
            ExitCode::from(OURS)
        }
    }
}

fn perform(cli: Cli) -> Result<u8, String> {
    let loaded = load(sources(&cli)).map_err(|error| error.to_string())?;
    if let Command::Config(config) = &cli.command {
        return match show_settings(&loaded, config.json) {
            Ok(()) => Ok(0),
            // Who reads no further has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(0),
            Err(error) => Err(error.to_string()),
        };
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no threads: {error}"))?;
    let code = runtime.block_on(serve(cli, loaded));
    // A thread may still be reading standard input, which nothing can interrupt.
    runtime.shutdown_background();
    code
}

async fn serve(cli: Cli, loaded: Loaded) -> Result<u8, String> {
    let mut ends = Ends::listen().map_err(|error| format!("no signals: {error}"))?;
    let mut directory = cli.common.directory;
    if let Command::Run(Run { cwd: Some(cwd), .. }) = &cli.command {
        directory = Some(directory.map_or_else(|| cwd.clone(), |directory| directory.join(cwd)));
    }
    let mut builder = Host::builder().settings(loaded.settings);
    if let Some(directory) = directory {
        let absolute = std::path::absolute(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        builder = builder.directory(absolute);
    }
    let host = builder.start().await.map_err(|error| error.message)?;
    let session = SessionName::new("main").map_err(|error| error.to_string())?;
    let code = match cli.command {
        Command::Run(run) => {
            let spec = spec(run);
            spec.check().map_err(|error| error.message)?;
            let code = run::run(&host, spec, &mut ends, tokio::io::stdout(), tokio::io::stderr()).await;
            code.map_err(|error: Error| error.message)
        }
        Command::Mcp(Mcp { session, agent }) => {
            let origin = Origin { session, caller: Caller::Agent(agent), request: None };
            tokio::select! {
                served = mcp::serve_stdio(host.clone(), origin) => served.map(|()| 0).map_err(|error| error.to_string()),
                signal = ends.next() => Ok(128 + signal),
            }
        }
        Command::Rpc => tokio::select! {
            served = rpc::serve_stdio(host.clone()) => served.map(|()| 0).map_err(|error| error.to_string()),
            signal = ends.next() => Ok(128 + signal),
        },
        Command::Config(_) => Ok(0),
    };
    // Also after a signal and after a mistake: nothing of ours outlives us.
    if let Err(error) = shut_down(&host, session).await {
        tracing::debug!(%error, "already shut down");
    }
    code
}

fn spec(run: Run) -> Spec {
    let Run { timeout_ms, grace_ms, shell, command, cwd: _ } = run;
    let spec = if shell { Spec::command(command.join(" ")) } else { Spec::argv(command) };
    Spec { timeout_ms, grace_ms, ..spec }
}

fn sources(cli: &Cli) -> Sources {
    let preferred = match cli.command {
        Command::Run(_) => vec![
            ("env.inherit", json!("all")),
            ("output.retain_bytes", json!(RUN_RETAIN_BYTES)),
            ("output.wait_for_reader", json!(true)),
        ],
        Command::Mcp(_) => vec![("env.inherit", json!("filtered"))],
        Command::Rpc => vec![("env.inherit", json!("core"))],
        Command::Config(_) => Vec::new(),
    };
    // Names and values that are no text are none of ours.
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Sources {
        preferred: preferred.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        file: cli.common.config.clone().or_else(|| usual_file(&environment)),
        environment,
        flags: cli.common.set.clone(),
    }
}

/// The file that is read without being named, if it is there.
fn usual_file(environment: &[(String, String)]) -> Option<PathBuf> {
    let of = |name: &str| environment.iter().find(|(known, text)| known == name && text.starts_with('/'));
    let base = match of("XDG_CONFIG_HOME") {
        Some((_, base)) => PathBuf::from(base),
        None => PathBuf::from(&of("HOME")?.1).join(".config"),
    };
    Some(base.join("procession/config.toml")).filter(|file| file.exists())
}

/// Reads `KEY=VALUE`: a number, boolean, list or null where the text is one in JSON, else text.
fn setting(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok((key.to_owned(), value))
}

fn show_settings(loaded: &Loaded, as_json: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        serde_json::to_writer_pretty(&mut out, &loaded.report)?;
        return writeln!(out);
    }
    let width = loaded.report.iter().map(|row| row.key.len()).max().unwrap_or(0);
    for row in &loaded.report {
        writeln!(out, "{:width$}  {}  ({})", row.key, row.value, row.source)?;
    }
    Ok(())
}

/// What is wrong, in one line, without the usage that follows it.
fn first_paragraph(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    format!("{}; see --help", lines.join(" ").trim_start_matches("error: "))
}

fn log_to_stderr() {
    let wanted = std::env::var("PROCESSION_LOG").unwrap_or_else(|_| "warn".to_owned());
    // The actors' library tells every start and end; who wants that asks for it by name.
    let wanted = if wanted.contains("ractor") { wanted } else { format!("{wanted},ractor=warn") };
    let filter = EnvFilter::try_new(&wanted).unwrap_or_else(|error| {
        complain(&format!("PROCESSION_LOG is {wanted:?}: {error}"));
        EnvFilter::new("warn")
    });
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // An embedder's own subscriber stays.
    let _ = subscriber.try_init();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    fn check(text: &str, expected: Result<(&str, Value), &str>) {
        let expected = expected.map(|(key, value)| (key.to_owned(), value)).map_err(str::to_owned);
        assert_eq!(setting(text), expected, "{text}");
    }

    #[test]
    fn settings_are_read_as_what_they_look_like() {
        check("limits.live_per_host=3", Ok(("limits.live_per_host", json!(3))));
        check("stop.signal=TERM", Ok(("stop.signal", json!("TERM"))));
        check("shell=[\"sh\",\"-c\"]", Ok(("shell", json!(["sh", "-c"]))));
        check("a=b=c", Ok(("a", json!("b=c"))));
        check("nothing", Err("expected KEY=VALUE"));
    }

    #[test]
    fn what_follows_the_command_is_its_own() {
        let cli = Cli::try_parse_from(["procession", "run", "--grace-ms", "0", "--", "ls", "--shell", "-l"]);
        let Ok(Cli { command: Command::Run(run), .. }) = cli else { panic!("a run") };
        assert!(!run.shell);
        assert_eq!(run.command, ["ls", "--shell", "-l"]);
    }

    #[test]
    fn the_usual_file_is_only_read_where_it_is() {
        let home = tempfile::tempdir().expect("a directory");
        let environment = [("HOME".to_owned(), home.path().display().to_string())];
        assert_eq!(usual_file(&environment), None);
        let file = home.path().join(".config/procession/config.toml");
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
        std::fs::write(&file, "").expect("written");
        assert_eq!(usual_file(&environment), Some(file));
        assert_eq!(usual_file(&[]), None);
    }
}
