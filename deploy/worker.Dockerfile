# The worker: Node and one bundle. Build from the repository's root: docker build -f deploy/worker.Dockerfile -t wa-orchestrator-worker .
# Behind a company's own authority: --secret id=ca,src=ca.pem (used while building, never in a layer).
FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY worker/package.json worker/package-lock.json worker/.npmrc ./
RUN --mount=type=secret,id=ca,required=false \
    if [ -f /run/secrets/ca ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/ca; fi; \
    npm ci --ignore-scripts --no-audit --no-fund
COPY worker/ ./
RUN node build/build.mjs

FROM node:24-bookworm-slim
# The same flags as the process runner's (a test compares them). MALLOC_* and the heap's limit, which follows
# WORKER_MEMORY_MB, are set by the server.
COPY --from=build /build/dist/ /app/
RUN mkdir -p /app/session /run/secrets /run/ca
USER 10001:10001
ENTRYPOINT ["node", "--max-semi-space-size=1", "--single-threaded-gc", "--v8-pool-size=1", "/app/loader.cjs"]
