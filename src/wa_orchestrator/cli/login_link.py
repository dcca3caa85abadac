"""A one-time login link, made beside the server: read access to its data directory is enough."""

from wa_orchestrator import context as contexts
from wa_orchestrator.dashboard.login import create_login_link
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.server import address
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine import embedded_redis
from wa_orchestrator.store.errors import RedisError


async def create(settings: Settings) -> str:
    """Create a login link for the server of this installation, which must run."""
    if settings.redis_url is not None:
        redis_url = settings.redis_url.get_secret_value()
    else:
        redis_url = embedded_redis.url_in(settings.data_dir)
    settings = settings.model_copy(update={"public_url": settings.public_url or address.find(settings.data_dir)})
    async with contexts.opened(settings, redis_url) as context:
        try:
            return await create_login_link(context)
        except (RedisError, OSError) as error:
            raise Unavailable("REDIS_UNREACHABLE", f"Cannot reach Redis ({error}). Is the server running?") from error
