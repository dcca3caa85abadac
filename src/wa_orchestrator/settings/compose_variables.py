"""Variables of `.env` that compose.yaml alone reads; the product has them only to describe them."""

#: By name: default, and what it is for.
COMPOSE = {
    "PUBLISH_HOST": ("127.0.0.1", "The address on which ports are published; for other machines use the profile tls."),
    "DOMAIN": ("localhost", "The name that the profile tls serves with https; it gets a certificate for a public one."),
    "HTTPS_PORT": ("443", "The port of the profile tls."),
    "HTTP_PORT": ("80", "Leads to https, and proves to Let's Encrypt that the name is yours."),
    "SIMULATOR_PORT": ("3010", "The port of the simulator's control API, in the profile simulate."),
    "REDIS_MEMORY": ("600mb", "What Redis may hold; further messages are refused and never dropped."),
    "REDIS_MEMORY_LIMIT": ("1200m", "Redis' own limit, twice that: it copies itself while it rewrites its file."),
    "WA_IMAGE": ("wa-orchestrator:latest", "The image of all parts and workers, as it is built or was loaded."),
    "WA_BASE": ("debian:trixie-slim", "The base of that image when it is built; `…@sha256:…` pins it by its digest."),
    "WA_PREFIX": ("wa", "Begins the names of containers and networks; two installations on one engine need two."),
    "WORKERS_SUBNET": ("172.28.0.0/16", "The workers' network; change all three where this one is taken."),
    "WORKERS_RANGE": ("172.28.128.0/17", "The part of it from which workers get addresses."),
    "WORKERS_ADDRESS": ("172.28.0.3", "The orchestrator's address in it, outside of that part."),
    "TLS_SUBNET": ("172.29.255.0/28", "The network of the profile tls; change all three where this one is taken."),
    "TLS_RANGE": ("172.29.255.8/29", "The part of it from which the orchestrator gets its address."),
    "TLS_ADDRESS": ("172.29.255.2", "The proxy's address, outside of that part: its X-Forwarded-For is believed."),
    "CA_FILE": ("/dev/null", "A company's own certificate authorities, for `docker compose build` alone."),
    "COMPOSE_PROFILES": ("", "Profiles that are always on: simulate, tls."),
    "COMPOSE_PROJECT_NAME": ("wa-orchestrator", "The name of the installation at the engine."),
}  # fmt: skip
