//! The program that tries to get away (`tests/fixtures/probe.rs`), compiled once for each test binary.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// How often an adversary gets to try: PROCESSION_TEST_ROUNDS, 3 where it is absent; a full run takes 200.
pub fn rounds() -> usize {
    let set = std::env::var("PROCESSION_TEST_ROUNDS").ok();
    set.map_or(3, |text| text.parse().expect("PROCESSION_TEST_ROUNDS is a number"))
}

/// The compiled probe. It shares nothing with the product.
pub fn probe() -> &'static str {
    static PROBE: OnceLock<String> = OnceLock::new();
    PROBE.get_or_init(|| {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let (program, new) = (directory.join("probe"), directory.join(format!("probe-{}", std::process::id())));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/probe.rs");
        let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let built = compiler.args(["--edition", "2024", "-D", "warnings", source, "-o"]).arg(&new).status();
        assert!(built.expect("there is a Rust compiler").success());
        // In one step, because other test binaries may run the old one.
        std::fs::rename(&new, &program).expect("the probe is put in its place");
        program.into_os_string().into_string().expect("a path of text")
    })
}
