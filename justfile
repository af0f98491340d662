# `just` lists the recipes; `.ci/run` is what decides whether a change is good.

default:
    @just --list

# Formatting and lints, everything that fails fast.
check:
    cargo fmt --check
    cargo clippy --all-targets --all-features -- -D warnings

# All tests, or those whose names contain FILTER.
test FILTER='':
    cargo test {{ FILTER }}

# One bench, or all of them; `just bench output --quick` for a first look.
bench NAME='*' *ARGS:
    cargo bench --bench '{{ NAME }}' -- {{ ARGS }}

# The documentation, private items left out, warnings refused.
doc:
    RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --all-features

# Licences, bans and sources of the dependencies (needs cargo-deny).
deny:
    cargo deny check

# Type-checks for macOS and Windows; fetches a compiler with its source once.
platforms:
    .ci/platforms

# Everything a change must pass.
ci:
    .ci/run
