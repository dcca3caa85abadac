#!/bin/sh
# Pins the image's base by its digest: asks the registry for it and writes WA_BASE into .env, so that every build starts from the
# same bytes. Run it again to follow a newer base, with its security updates. Then: docker compose build
set -eu
cd "$(dirname "$0")/.."

[ -e .env ] || { echo "There is no .env yet. Run scripts/setup.sh first." >&2; exit 2; }
base=$(sed -n 's/^ARG BASE=//p' Dockerfile)
docker pull --quiet "$base" >/dev/null || { echo "$base cannot be pulled, so its digest is not known. Nothing was changed." >&2; exit 1; }
digest=$(docker image inspect --format '{{index .RepoDigests 0}}' "$base")
digest=${digest#*@}
case $digest in
    sha256:*) ;;
    *) echo "$base has no digest of a registry. Nothing was changed." >&2; exit 1 ;;
esac
umask 077 # it may hold passwords
{ grep -v '^WA_BASE=' .env || true; echo "WA_BASE=$base@$digest"; } >.env.new
mv .env.new .env
echo "Written to .env: WA_BASE=$base@$digest"
