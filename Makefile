# Shortcuts. `make up` builds Landfall, starts a server with this machine as its node, and runs a first job.

.PHONY: up install test bench

up:
	cargo run --profile up --package landfall-cli -- up --first-job

install:
	cargo install --locked --path crates/cli
	cargo install --locked --path crates/wasm

test:
	cargo xtask ci

bench:
	cargo bench --package landfall-cli --bench service
