#!/bin/sh
# Builds the board's page into dist/page, from where cargo takes it. Where npm is not installed it says so, and nothing is lost but the page.
set -eu
cd "$(dirname "$0")"
if ! command -v npm > /dev/null 2>&1; then
    echo "npm is not installed: the server will say how to get the board (Node 20 or newer builds it)"
    exit 0
fi
if ! cmp -s package-lock.json node_modules/.installed; then
    npm ci --no-audit --no-fund --loglevel=error
    cp package-lock.json node_modules/.installed
fi
# What did not change is not built again: cargo would build everything that contains it.
inputs=$(find src index.html public tools package.json tsconfig.json vite.config.ts ../../../docs/reference/openapi.json -type f ! -path 'src/gen/*' |
    LC_ALL=C sort | xargs cksum)
if [ -e dist/page/index.html ] && [ "$inputs" = "$(cat node_modules/.built 2> /dev/null)" ]; then
    exit 0
fi
npm run --silent build
echo "$inputs" > node_modules/.built
