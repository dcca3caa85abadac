# The server: all parts. Build from the repository's root: docker build -f deploy/server.Dockerfile -t wa-orchestrator .
# Behind a company's own authority: --secret id=ca,src=ca.pem (used while building, never in a layer).
FROM node:24-bookworm-slim AS bundle
WORKDIR /build
COPY worker/package.json worker/package-lock.json worker/.npmrc ./
RUN --mount=type=secret,id=ca,required=false \
    if [ -f /run/secrets/ca ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/ca; fi; \
    npm ci --ignore-scripts --no-audit --no-fund
COPY worker/ ./
RUN node build/build.mjs

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
COPY requirements.lock requirements-dev.lock pyproject.toml README.md LICENSE ./
RUN --mount=type=secret,id=ca,required=false \
    if [ -f /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \
    python -m venv /venv && /venv/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
# The build backend is locked by hash like everything else, and stays behind in this stage.
RUN --mount=type=secret,id=ca,required=false \
    if [ -f /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi; \
    python -m venv /tools && /tools/bin/pip install --no-cache-dir --require-hashes -r requirements-dev.lock
COPY src/ src/
RUN /tools/bin/pip wheel --no-build-isolation --no-deps --no-index --wheel-dir /wheels . \
    && /venv/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl

FROM python:3.11-slim-bookworm
COPY --from=build /venv /venv
COPY --from=bundle /build/dist/ /app/
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 WORKER_BUNDLE=/app/worker.cjs BIND_HOST=0.0.0.0
RUN useradd --uid 10001 --create-home wa && mkdir -p /var/lib/wa-orchestrator/uploads \
    && chown -R wa:wa /var/lib/wa-orchestrator
USER 10001:10001
WORKDIR /var/lib/wa-orchestrator
ENV DATA_DIR=/var/lib/wa-orchestrator
EXPOSE 3001 3002
HEALTHCHECK --interval=15s --timeout=3s --start-period=20s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:3001/health', timeout=2)"]
ENTRYPOINT ["wa-orchestrator"]
CMD ["up"]
