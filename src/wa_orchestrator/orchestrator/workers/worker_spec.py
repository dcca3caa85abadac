"""The spec of a worker: its environment and secrets."""

from wa_orchestrator.domain.sessions.profile import DEFAULT
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.workers import credential_keys, tokens
from wa_orchestrator.runner.contract import WorkerSpec
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.records import Session

PING_INTERVAL_MS = 15_000
#: The longest time that a worker shows "typing" before it sends.
TYPING_MAX_MS = 8_000
#: How long a phone may take after its owner signed with a passkey, as WhatsApp's own client has it.
PASSKEY_PHONE_MS = 120_000
_SHORTEST_PING_MS = 200
#: Runners whose workers may be where nobody can stop them.
SEVERAL_MACHINES = frozenset({"swarm", "kubernetes"})
#: A clock runs wrong by less than this part of a time; and what a worker needs to close its connection.
CLOCK_DRIFT, FENCE_MARGIN_MS = 100, 500
#: The worker's names of log levels.
_LEVELS = {"warning": "warn"}


def presence_of(settings: Settings, session: Session) -> str:
    """Return when a session's device is shown as online: its own choice, or the installation's."""
    return session.presence or default_presence(settings)


def default_presence(settings: Settings) -> str:
    """Return the installation's choice."""
    return settings.presence or ("always" if settings.enable_keep_alive else "while_sending")


def fence_ms(settings: Settings) -> int:
    """Return after how long without a sign a worker leaves WhatsApp; 0 where all run on one machine."""
    return round(settings.scaled(settings.fence_ms)) if settings.runner in SEVERAL_MACHINES else 0


def silent_after_ms(settings: Settings) -> int:
    """Return after how long without a sign a worker has certainly left WhatsApp; 0 where all run on one machine."""
    fence = fence_ms(settings)
    return fence + fence // CLOCK_DRIFT + FENCE_MARGIN_MS if fence else 0


def spec_for(settings: Settings, session: Session, epoch: int, proxy_url: str, revision: int = 0) -> WorkerSpec:
    """Return the spec of a session's worker. '' as `proxy_url` means direct, which the settings must allow.

    `revision` is the newest of WhatsApp Web that another session was accepted with.
    """
    minted = tokens.mint(settings, session.id, epoch)
    base = settings.worker_base_url
    environment = {
        "WEBHOOK_URL": f"{base}/webhook",
        "OUTBOX_URL": f"{base}/api/worker/sessions/{session.id}/outbox",
        "ENABLE_KEEP_ALIVE": str(settings.enable_keep_alive).lower(),
        "PRESENCE": presence_of(settings, session),
        "PASSKEY_LINKING": str(settings.passkey_linking).lower(),
        "PASSKEY_PHONE_MS": str(max(1000, round(settings.scaled(PASSKEY_PHONE_MS)))),
        "REJECT_CALLS": str(settings.reject_calls).lower(),
        "LINK_HISTORY": settings.link_history,
        "DEVICE_NAME": session.device_name or DEFAULT,
        "LOG_LEVEL": _LEVELS.get(settings.log_level, settings.log_level),
        "ORPHAN_TIMEOUT_MS": str(settings.orphan_timeout_ms),
        "PING_INTERVAL_MS": str(max(_SHORTEST_PING_MS, round(settings.scaled(PING_INTERVAL_MS)))),
        "TYPING_MAX_MS": str(round(settings.scaled(TYPING_MAX_MS))),
        "ACK_TIMEOUT_MS": str(max(1000, round(settings.scaled(settings.ack_timeout_ms)))),
    }
    if fence := fence_ms(settings):
        environment["FENCE_MS"] = str(fence)
        # Three may be lost before the fence falls.
        environment["PING_INTERVAL_MS"] = str(min(int(environment["PING_INTERVAL_MS"]), fence // 4))
    if settings.credentials == "server":
        environment["CREDENTIALS"] = "server"
    if revision:
        environment["WHATSAPP_REVISION"] = str(revision)
    if settings.worker_ca_file is not None:
        environment["NODE_EXTRA_CA_CERTS"] = str(settings.worker_ca_file.absolute())
    secrets = {"WORKER_TOKEN": minted.token, "WEBHOOK_SECRET": minted.webhook_secret}
    secrets |= credential_keys.worker_secrets(settings, session.id)
    if proxy_url:
        secrets["PROXY_URL"] = proxy_url
    elif settings.allow_direct:
        environment["ALLOW_DIRECT"] = "true"
    if session.pairing == "code" and session.phone:
        secrets["PAIRING_PHONE"] = session.phone
    return WorkerSpec(session.id, epoch, credential_files.directory(settings, session.id), environment, secrets)
