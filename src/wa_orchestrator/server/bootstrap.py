"""Assembles the services and runs them until a signal; the only place where they meet.

SIGINT (Ctrl-C) and SIGHUP (a closed terminal) stop the workers too. SIGTERM is an upgrade and leaves them running: the
next server adopts them.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import structlog
from fastapi import APIRouter, FastAPI

from wa_orchestrator import context as contexts
from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import app as dashboard
from wa_orchestrator.dashboard.accounts import SecondFactorSealing
from wa_orchestrator.dashboard.login import create_login_link
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.domain.workers import worker_events
from wa_orchestrator.errors import Broken, Refused, Unavailable
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.loop import Loop, Runnable
from wa_orchestrator.orchestrator import installation_check, service
from wa_orchestrator.orchestrator.api.contacts import ContactRoutes
from wa_orchestrator.orchestrator.api.conversations.quick_replies import QuickReplyRoutes
from wa_orchestrator.orchestrator.api.conversations.routes import ConversationRoutes
from wa_orchestrator.orchestrator.api.events import reference
from wa_orchestrator.orchestrator.api.events.routes import EventRoutes
from wa_orchestrator.orchestrator.api.exports import ExportRoutes
from wa_orchestrator.orchestrator.api.groups import GroupRoutes
from wa_orchestrator.orchestrator.api.holds import HoldRoutes
from wa_orchestrator.orchestrator.api.media import MediaRoutes
from wa_orchestrator.orchestrator.api.message_acts import ChatActRoutes, MessageActRoutes
from wa_orchestrator.orchestrator.api.optouts import OptOutRoutes
from wa_orchestrator.orchestrator.api.radar import RadarRoutes
from wa_orchestrator.orchestrator.api.sessions.limits import LimitRoutes
from wa_orchestrator.orchestrator.api.tag_limits import TagLimitRoutes
from wa_orchestrator.orchestrator.api.webhooks import WebhookRoutes
from wa_orchestrator.orchestrator.api.workers.credentials import WorkerCredentialRoutes
from wa_orchestrator.orchestrator.api.workers.events import OneStep
from wa_orchestrator.orchestrator.api.workers.outbox import WorkerOutboxRoutes
from wa_orchestrator.orchestrator.messages import drift_reports, incoming_messages, link_history, receipts
from wa_orchestrator.orchestrator.messages.outbox_signal import OutboxSignals
from wa_orchestrator.orchestrator.notifications.alerts import Alerts
from wa_orchestrator.orchestrator.notifications.webhooks import WebhookDeliverer
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import client_expiry
from wa_orchestrator.runner.factory import docker_runner, runner_for, separates_files
from wa_orchestrator.runner.remote import protocol
from wa_orchestrator.runner.remote.client import RemoteRunner
from wa_orchestrator.runner.remote.server import AllowedFiles, RunnerServer
from wa_orchestrator.server import address, banner, open_files
from wa_orchestrator.server.credential_check import refuse_lost_key
from wa_orchestrator.server.http import listen, serving
from wa_orchestrator.server.redis_check import check_redis
from wa_orchestrator.server.supervisor import CloseOnCancel, RunOnce, Signals, supervised
from wa_orchestrator.settings import Settings
from wa_orchestrator.simulator import child_process, demo
from wa_orchestrator.store import records
from wa_orchestrator.store.engine import durability, key_types
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis
from wa_orchestrator.web import health
from wa_orchestrator.web.app import make_app, make_worker_app
from wa_orchestrator.web.connections import Limits

log = structlog.get_logger(__name__)


async def up(settings: Settings, *, simulate: bool = False, fleet: int = 0) -> None:
    """Run everything in one process until a signal."""
    with Signals() as signals:
        async with running(settings, simulate=simulate, fleet=fleet) as server:
            async with supervised([RunOnce(lambda: _print_banners(server, fleet))]):
                await signals.received.wait()
            log.info("server.stopping", workers="stopped" if signals.stop_workers else "left running")
            if signals.stop_workers:
                await server.stop_workers()
    log.info("server.stopped")


async def gateway(settings: Settings) -> None:
    settings, _ = child_process.join_world(settings)
    async with contexts.opened(settings, _redis_url(settings)) as context:
        await _check_redis(context)
        made = Gateway(context)
        bound = listen(settings.bind_host, settings.gateway_port, "GATEWAY_PORT")
        async with serving(made.app(), bound, open_files.shared(Limits.of(settings), 1), made.http):
            await _run([*made.loops, _redis_check(context)])


async def dispatcher(settings: Settings) -> None:
    settings, _ = child_process.join_world(settings)
    async with contexts.opened(settings, _redis_url(settings)) as context:
        await _check_redis(context)
        await _run([Dispatcher(context), _redis_check(context)])


async def orchestrator(settings: Settings) -> None:
    """Run only the orchestrator, with the dashboard. It serves the gateway's routes too: one port has all APIs."""
    settings, world = child_process.join_world(settings)
    settings, (bound, worker_socket) = _listeners(settings)
    async with contexts.opened(settings, _redis_url(settings)) as context, runner_for(settings) as runner:
        context.simulator = world
        context.workers_read_each_other = not separates_files(runner)
        await _check_redis(context)
        await refuse_lost_key(context)
        await installation_check.add_configured_proxies(context)
        messages = Gateway(context)
        apps = control_apps(service.assemble(context, runner), [messages.router()])
        limits = open_files.shared(Limits.of(settings), 2)
        async with (
            serving(apps.main, bound, limits.apart_from(settings.workers_own_host), messages.http),
            serving(apps.workers, worker_socket, limits.inside()),
        ):
            with address.published(settings):
                await _run(apps.loops)


async def runner(settings: Settings) -> None:
    """Run only the driver of workers, for an orchestrator with `RUNNER=remote`. Workers outlive it."""
    with Signals() as signals:
        async with (
            docker_runner(settings) as driver,
            RunnerServer(driver, _allowed_files(settings)).serving(settings.runner_socket),
        ):
            log.info("runner.serving", socket=str(settings.runner_socket))
            await signals.received.wait()


async def end_workers(settings: Settings) -> int:
    """End all workers of the installation, by the runner or, where none runs, by the engine. Returns how many."""
    try:
        return await RemoteRunner(settings.runner_socket).end()
    except Unavailable as error:
        if error.code != protocol.UNREACHABLE:
            raise
    async with docker_runner(settings) as driver:
        return await RunnerServer(driver, _allowed_files(settings)).end()


def _allowed_files(settings: Settings) -> AllowedFiles:
    return AllowedFiles(settings.sessions_dir, settings.data_dir / child_process.HOME)


async def fleet(settings: Settings, url: str, size: int) -> None:
    """Link simulated phones to a server that shares the simulator, send, and read messages until a signal."""
    _, world = child_process.join_world(settings)
    if world is None:
        raise Refused("NO_SIMULATOR", "There is no simulator beside this server: start it with --profile simulate.")
    linked = demo.DemoFleet(url, settings.api_key.get_secret_value(), world["control"], size)

    async def link() -> None:
        log.info("fleet.ready", text=await linked.run())

    await _run([RunOnce(link), demo.MessageReaders(world["control"])])


async def _check_redis(context: Context) -> None:
    """Refuse to start on a Redis that is a cluster, or in which another program has taken one of our keys."""
    await durability.refuse_cluster(context.scripts)
    if problems := await key_types.problems(context.scripts):
        text = (
            f"Redis has keys of another program: {'; '.join(problems)}. Rename or delete them, or use another database."
        )
        raise Refused("WRONG_KEY_TYPE", text)


async def _run(loops: Sequence[Runnable]) -> None:
    with Signals() as signals:
        async with supervised(loops):
            await signals.received.wait()


@dataclass(frozen=True, slots=True)
class Server:
    context: Context
    orchestrator: Orchestrator
    gateway_port: int
    fleet_report: asyncio.Future[str]
    """The outcome of linking the simulated fleet."""
    loops: AsyncExitStack
    """Ends the loops when it is closed; HTTP is served on."""

    @property
    def url(self) -> str:
        return self.context.settings.local_url

    async def stop_workers(self) -> None:
        """Give up leadership, end the loops, then stop all workers: nothing is left that could start one again."""
        await self.orchestrator.lease.retire()
        await self.loops.aclose()
        await self.orchestrator.stop_workers()


@asynccontextmanager
async def running(settings: Settings, *, simulate: bool = False, fleet: int = 0) -> AsyncIterator[Server]:
    """Run everything in one process while the block runs. Workers keep running afterwards."""
    async with AsyncExitStack() as stack:
        settings, (main_socket, worker_socket) = _listeners(settings)
        gateway_socket = listen(settings.bind_host, settings.gateway_port, "GATEWAY_PORT")
        settings = settings.model_copy(update={"gateway_port": gateway_socket.getsockname()[1]})
        child_process.check_data_dir(settings.data_dir, simulate=simulate)
        redis_url = await _redis(settings, stack)
        world = None
        if simulate:
            proxies = child_process.proxies_for(fleet)
            world = await stack.enter_async_context(child_process.simulated_world(settings.data_dir, proxies))
            settings = child_process.use_simulator(settings, world)
        context = await stack.enter_async_context(contexts.opened(settings, redis_url))
        context.simulator = world
        await _check_redis(context)
        await refuse_lost_key(context)
        await context.scripts.load()
        await installation_check.add_configured_proxies(context)
        runner = await stack.enter_async_context(runner_for(settings))
        context.workers_read_each_other = not separates_files(runner)
        control = service.assemble(context, runner)
        messages = Gateway(context)
        apps = control_apps(control, [messages.router()])
        limits = open_files.shared(Limits.of(settings), 3)
        apart = limits.apart_from(settings.workers_own_host)
        await stack.enter_async_context(serving(apps.main, main_socket, apart, messages.http))
        await stack.enter_async_context(serving(messages.app(), gateway_socket, apart, messages.http))
        await stack.enter_async_context(serving(apps.workers, worker_socket, limits.inside()))
        supervision = await stack.enter_async_context(AsyncExitStack())
        report = asyncio.get_running_loop().create_future()
        server = Server(context, control, settings.gateway_port, report, supervision)
        loops = [*apps.loops, Dispatcher(context), *messages.loops, *_fleet(server, fleet)]
        await supervision.enter_async_context(supervised(loops))
        stack.enter_context(address.published(settings))
        yield server


def _listeners(settings: Settings) -> tuple[Settings, tuple[socket.socket, socket.socket]]:
    """Bind the main port and the workers' own. Returns the settings with the ports that were picked."""
    main = listen(settings.bind_host, settings.orch_port, "ORCH_PORT")
    workers = listen(settings.worker_bind_host, settings.worker_port, "WORKER_PORT")
    ports = {"orch_port": main.getsockname()[1], "worker_port": workers.getsockname()[1]}
    return settings.model_copy(update=ports), (main, workers)


class ControlApps(NamedTuple):
    """The orchestrator's applications, with the dashboard and for workers alone, and its loops."""

    main: FastAPI
    workers: FastAPI
    loops: list[Runnable]


#: The orchestrator's routes that need nothing but the context.
_ROUTES: Final = (
    EventRoutes, ExportRoutes, MediaRoutes, MessageActRoutes, ChatActRoutes, GroupRoutes,
    RadarRoutes, WebhookRoutes, OptOutRoutes, ContactRoutes, ConversationRoutes,
    QuickReplyRoutes, HoldRoutes, LimitRoutes, TagLimitRoutes,
)  # fmt: skip


def control_apps(control: Orchestrator, routers: Sequence[APIRouter] = ()) -> ControlApps:
    """Return the orchestrator's applications and its loops; `routers` are served beside its own."""
    context = control.context
    control.handlers.update(
        {
            worker_events.MessageSent: OneStep(receipts.on_message_sent),
            worker_events.MessageFailed: receipts.on_message_failed,
            worker_events.MessageReceipt: OneStep(receipts.on_message_status),
            worker_events.IncomingMessage: OneStep(incoming_messages.on_message_received),
            worker_events.UndecryptableMessage: incoming_messages.on_message_undecryptable,
            worker_events.LinkHistory: link_history.on_link_history,
            worker_events.IdentityChanged: incoming_messages.on_identity_changed,
            worker_events.ClientExpiration: client_expiry.on_client_expiration,
            worker_events.ProtocolDrift: drift_reports.on_protocol_drift,
            worker_events.SentElsewhere: incoming_messages.on_sent_elsewhere,
            worker_events.Call: incoming_messages.on_call,
            worker_events.AccountLimits: incoming_messages.on_account_limits,
        }
    )
    signals = OutboxSignals(context.scripts)
    events, outbox = control.worker_events, WorkerOutboxRoutes(context, signals)
    stored = [WorkerCredentialRoutes(context)] if context.settings.credentials == "server" else []
    of_workers = [events, outbox, *stored]
    parts = [
        *control.routers,
        *(of_workers if context.settings.workers_on_main_port else ()),
        *(part(context) for part in _ROUTES),
        health.router(context),
    ]
    app = make_app(context, [*routers, *parts], webhooks=reference.webhooks())
    pages = dashboard.install(app, context)
    deliveries: list[Runnable] = [WebhookDeliverer(context), Alerts(context)]
    sealing = SecondFactorSealing(context)
    loops = [*control.loops, *deliveries, pages, sealing, CloseOnCancel(signals.close), _redis_check(context)]
    frequent = events.handlers_by_path() | outbox.handlers_by_path()
    return ControlApps(app, make_worker_app(context, [outbox, *stored], frequent), loops)


def _redis_check(context: Context) -> Runnable:
    return Loop("redis_check", partial(check_redis, context))


def _fleet(server: Server, size: int) -> list[Runnable]:
    world = server.context.simulator
    if not size or world is None:
        return []
    key = server.context.settings.api_key.get_secret_value()
    fleet = demo.DemoFleet(server.url, key, world["control"], size)

    async def settle() -> None:
        server.fleet_report.set_result(await fleet.run())

    return [RunOnce(settle), demo.MessageReaders(world["control"])]


async def _redis(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.redis_url is not None:
        return settings.redis_url.get_secret_value()
    return (await stack.enter_async_context(EmbeddedRedis(settings.data_dir))).url


def _redis_url(settings: Settings) -> str:
    if settings.redis_url is None:
        raise Broken("a single service was started without REDIS_URL")
    return settings.redis_url.get_secret_value()


async def _print_banners(server: Server, fleet: int) -> None:
    """Print the banner; with a fleet once more when it is linked, because log lines have followed the first."""
    if fleet:
        await _print_banner(server, f"Linking {fleet} simulated phones; this takes about {fleet * 2 + 10} seconds.")
    await _print_banner(server, await server.fleet_report if fleet else await _proxy_note(server.context))


async def _proxy_note(context: Context) -> str:
    """Return a note for the banner of a new installation: without a proxy no account can be linked."""
    if context.settings.allow_direct:
        return "ALLOW_DIRECT is on: sessions without a proxy connect from this machine's own IP address."
    if await records.proxies(context.scripts):
        return ""
    return f"There are no proxies yet. Add one at {context.settings.local_url}/proxies, or as PROXY_URL_1 in .env."


async def _print_banner(server: Server, note: str) -> None:
    context = server.context
    # Not into a file or a journal, where others read it within the hour.
    link = await create_login_link(context) if sys.stdout.isatty() else None
    sys.stdout.write(banner.render(context.settings, link, world=context.simulator, note=note))
    sys.stdout.flush()
