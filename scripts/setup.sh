#!/bin/sh
# Prepares an installation by docker compose: .env, the image, directories, secrets. May be run again at any time: what is there
# stays as it is. Then: docker compose up -d
set -eu
cd "$(dirname "$0")/.."

docker compose version >/dev/null 2>&1 || { echo "Docker with its plugin compose (2.20 or newer) is needed." >&2; exit 2; }
if [ ! -e .env ]; then
    (umask 077 && cp env.example .env)
    echo "Written: .env. Put your proxies into it (PROXY_URL_1, …)."
fi
chmod 600 .env # it may hold passwords
docker compose build --quiet
docker compose run --rm setup
echo "Start it: docker compose up -d"
