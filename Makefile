# Shortcuts. `make up` builds Landfall, starts a server with this machine as its node, and runs a first job.

.PHONY: up test bench

up:
	cargo run --release --package landfall-cli -- up --first-job

test:
	cargo xtask ci

bench:
	cargo bench --package landfall-cli --bench service
