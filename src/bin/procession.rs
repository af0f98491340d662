//! The command line. Everything it does stands in the library's front ends.

fn main() -> std::process::ExitCode {
    procession::frontend::cli::main()
}
