"""The environment of a worker that is started by hand, read beside the server: its secrets do not leave the machine."""

from wa_orchestrator import context as contexts
from wa_orchestrator.domain.sessions.session import WANTS_WORKER, State
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.workers.worker_spec import spec_for
from wa_orchestrator.server import address
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.engine import embedded_redis
from wa_orchestrator.store.errors import RedisError


async def worker_environment(settings: Settings, session_id: str) -> tuple[dict[str, str], bool]:
    """Return the variables for the session's current epoch, and whether the server runs a worker itself."""
    if settings.redis_url is not None:
        redis_url = settings.redis_url.get_secret_value()
    else:
        redis_url = embedded_redis.url_in(settings.data_dir)
    published = address.find(settings.data_dir, "workers")
    settings = settings.model_copy(update={"worker_url": settings.worker_url or published})
    async with contexts.opened(settings, redis_url) as context:
        try:
            session = await records.session(context.scripts, session_id)
            proxy = await records.proxy(context.scripts, session.proxy) if session and session.proxy else None
        except (RedisError, OSError) as error:
            raise Unavailable(
                "REDIS_UNREACHABLE", f"Cannot read the session ({error}). Is the server running?"
            ) from error
    if session is None:
        raise Refused("NO_SUCH_SESSION", f"There is no session {session_id}.")
    spec = spec_for(settings, session, session.epoch, proxy.url if proxy else "")
    own = {"SESSION_ID": session.id, "EPOCH": str(spec.epoch), "AUTH_DIR": str(spec.auth_dir.absolute())}
    return {**own, **spec.secrets, **spec.environment}, State(session.status) in WANTS_WORKER
