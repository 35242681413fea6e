# Shortcuts. `make up` builds Landfall, starts a server with this machine as its node, and runs a first job.

.PHONY: up page install test bench

up: page
	cargo run --profile up --package landfall-cli -- up --first-job

# The board's page, where npm is; the rest does not need it.
page:
	@sh crates/board/web/build.sh || echo "the board could not be built; the server will say how to get it"

install: page
	cargo install --locked --path crates/cli
	cargo install --locked --path crates/wasm

test:
	cargo xtask ci

bench:
	cargo bench --package landfall-cli --bench service
