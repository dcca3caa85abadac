// Assembles the worker's parts and stops them in order.
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { unpadRandomMax16 } from 'baileys'
import { Limits } from './connection/account-limits.ts'
import { Device } from './connection/device.ts'
import { Drift } from './connection/drift.ts'
import { Fence } from './connection/fence.ts'
import { KeepAlive } from './connection/keepalive.ts'
import { Presence } from './connection/presence.ts'
import { TunnelAgent } from './connection/proxy.ts'
import { makeSettling } from './connection/settled-signal.ts'
import { makeCaches, makeFetchOptions, type Wiring } from './connection/socket.ts'
import { Version } from './connection/version.ts'
import { Ending, EXIT, type ExitName } from './exit-codes.ts'
import { describeError, type Log, makeLog } from './log.ts'
import { Addressing } from './messages/addressing.ts'
import { Calls } from './messages/calls.ts'
import { Groups } from './messages/groups.ts'
import { Receiver } from './messages/incoming-messages.ts'
import { LinkHistory } from './messages/link-history.ts'
import { MediaDownload } from './messages/media-download.ts'
import { Proofs } from './messages/message-acks.ts'
import { Acts } from './messages/message-acts.ts'
import { Sender } from './messages/outgoing-messages.ts'
import { Undecryptable } from './messages/undecryptable-messages.ts'
import { Commands } from './server/commands.ts'
import { CredentialService } from './server/credential-service.ts'
import { Events } from './server/events.ts'
import { Outbox } from './server/outbox.ts'
import type { Settings } from './settings.ts'
import { type Auth, openAuth } from './store/auth.ts'
import { type Database, Unreadable } from './store/database.ts'
import { Inbox } from './store/inbox.ts'
import { Messages } from './store/message-store.ts'
import { Replica } from './store/replica.ts'
import { restoreCopy } from './store/restored-copy.ts'

const STOP_LIMIT_MS = 9_500
const FINISH_SENDING_MS = 7_000
const REPORT_MS = 5_000
const LAST_REPORT_MS = 1_500

type Parts = {
  auth: Auth
  replica: Replica | undefined
  events: Events
  device: Device
  sender: Sender
  keepAlive: KeepAlive
  limits: Limits
  presence: Presence
  undecryptable: Undecryptable
  drift: Drift
  log: Log
}

/** Baileys writes media to the temporary directory; it must be private, and empty at the start. */
function useOwnTemporaryDirectory(authDir: string): void {
  const directory = join(authDir, 'tmp')
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { mode: 0o700 })
  process.env.TMPDIR = directory
}

/**
 * Time since the server last took or gave something; a worker nobody listens to must not live on. Only time in which we could
 * have heard it counts: of a machine's sleep, or a freeze, not more than one look.
 */
class Orphanhood {
  readonly #timeoutMs: number
  readonly lookEveryMs: number
  #silentMs = 0
  #lookedAt = performance.now()

  constructor({ orphanTimeoutMs, pingIntervalMs }: Pick<Settings, 'orphanTimeoutMs' | 'pingIntervalMs'>) {
    this.#timeoutMs = orphanTimeoutMs
    this.lookEveryMs = Math.min(pingIntervalMs, Math.ceil(orphanTimeoutMs / 4))
  }

  readonly answered = (): void => {
    this.#silentMs = 0
  }

  look(): void {
    const now = performance.now()
    this.#silentMs += Math.min(now - this.#lookedAt, 2 * this.lookEveryMs)
    this.#lookedAt = now
    if (this.#silentMs > this.#timeoutMs) throw new Ending('ORPHANED', 'the server has not answered for too long')
  }
}

function assemble(
  settings: Settings,
  auth: Auth,
  service: CredentialService | undefined,
  log: Log,
  orphanhood: Orphanhood,
  fail: (ending: Ending) => void,
): Parts {
  const { database } = auth
  const replica = service && new Replica(database, settings.authDir, settings.epoch, service, log, fail)
  const fence = new Fence(settings.fenceMs)
  const pinged = (madeAt: number): void => fence.signed(madeAt)
  const events = new Events(settings, log, { answered: orphanhood.answered, fenced: fail, pinged }, database)
  const messages = new Messages(database)
  const outbox = new Outbox(settings, log, orphanhood.answered)
  const agent = settings.proxy ? new TunnelAgent(settings.proxy) : undefined
  const fetchOptions = makeFetchOptions(settings.proxy)
  const inbox = new Inbox(database, log)
  const undecryptable = new Undecryptable(auth, events, log, settings.undecryptableAfterMs, id => inbox.isSettled(id))
  inbox.onFailure = (stanza, enc) => undecryptable.failed(stanza, enc)
  const drift = new Drift(events, settings.driftAfterMs)
  inbox.onDecrypted = plaintext => drift.decrypted(unpadRandomMax16(plaintext))
  const receiver = new Receiver(events, messages, inbox, undecryptable, log)
  const calls = new Calls(events, log, settings.rejectCalls ? 'reject' : 'ring')
  const proofs = new Proofs((whatsappId, messageId, at) => {
    sender
      .acknowledgeLate(whatsappId, messageId, at)
      .catch(error => (error instanceof Ending ? fail(error) : undefined))
  })
  const wiring: Wiring = { settings, auth, agent, fetchOptions, caches: makeCaches(), messages, inbox, log }
  const version = new Version(settings.authDir, agent, settings.knownRevision, log)
  const addressing = new Addressing(auth, new LinkHistory(settings.linkHistory, events), log)
  const device = new Device({
    settings,
    wiring,
    auth,
    fence,
    version,
    events,
    log,
    onSocket: sock => {
      proofs.attach(sock)
      addressing.attach(sock)
      inbox.attach(sock, auth)
      undecryptable.attach(sock)
      drift.attach(sock)
      receiver.attach(sock)
      calls.attach(sock)
      limits.attach(sock)
      presence.attach(sock, auth)
    },
    onOpen: sock => {
      addressing.opened(sock)
      void presence.announce()
      limits.opened(sock)
      settle()
    },
  })
  fence.onLost = () => device.drop()
  const limits = new Limits(device, events, log)
  const presence = new Presence(settings.presence, device, log)
  const settle = makeSettling(settings.settleAfterMs)
  const flush = (): void => {
    auth.flush()
    events.flush()
  }
  const store = { database, directory: settings.authDir, flush }
  const acts = new Acts({
    addressing,
    proofs,
    messages,
    presence,
    ignoreReceipts: whatsappId => receiver.ignore(whatsappId),
    ackTimeoutMs: settings.ackTimeoutMs,
    log,
  })
  const commands = new Commands(
    device,
    outbox,
    new MediaDownload(messages, fetchOptions, log),
    [acts, new Groups()],
    store,
    settings.epoch,
    log,
  )
  const sender = new Sender({
    settings,
    device,
    outbox,
    proofs,
    messages,
    events,
    log,
    runCommand: command => commands.run(command),
    addressing,
    presence,
    isLocked: () => limits.isLocked(),
    checkEpoch: () => database.checkEpoch(),
    durable: () => database.durable(),
  })
  const keepAlive = new KeepAlive(
    settings,
    device,
    events,
    log,
    () => sender.busy,
    whatsappId => receiver.ignore(whatsappId),
    () => addressing.ownAddress,
    () => presence.beat(),
  )
  return { auth, replica, events, device, sender, keepAlive, limits, presence, undecryptable, drift, log }
}

/** Lets go of everything in order and ends the process. What cannot be reported now is in the file and will be reported at the next start. */
async function finish(
  { auth, replica, events, device, sender, keepAlive, limits, presence, undecryptable, drift, log }: Parts,
  ending: Ending | undefined,
): Promise<void> {
  const exit: ExitName = ending?.exit ?? 'OK'
  log.info('worker.stopping', { exit, reason: ending?.message })
  setTimeout(() => process.exit(EXIT[exit]), STOP_LIMIT_MS)
  keepAlive.stop()
  limits.stop()
  undecryptable.stop()
  drift.stop()
  const isHeard = exit !== 'FENCED' && exit !== 'ORPHANED'
  await sender.stop(!isHeard ? 0 : exit === 'OK' ? FINISH_SENDING_MS : LAST_REPORT_MS)
  await presence.stop()
  device.stop()
  if (exit !== 'FENCED') auth.flush()
  await events.close(!isHeard ? 0 : exit === 'OK' ? LAST_REPORT_MS : REPORT_MS)
  await replica?.close(isHeard ? LAST_REPORT_MS : 0)
  auth.database.close()
  log.info('worker.stopped', { exit, code: EXIT[exit] })
  process.exit(EXIT[exit])
}

/** Reports what cannot be worked with, as long as the server listens for a moment, and ends. */
async function refuseCredentials(settings: Settings, log: Log, error: Unreadable): Promise<never> {
  log.error('auth.unreadable', { error: error.message })
  const events = new Events(settings, log, { answered: () => undefined, fenced: () => process.exit(EXIT.FENCED) })
  events.emit('AUTH_FAILURE', { reason: 'CREDENTIALS_UNREADABLE', error: error.message })
  await events.close(REPORT_MS)
  process.exit(EXIT.AUTH_FAILURE)
}

async function open(
  settings: Settings,
  service: CredentialService | undefined,
  log: Log,
  fail: (ending: Ending) => void,
): Promise<Auth> {
  try {
    return await openAuth(settings, settings.epoch, fail, service && (() => restoreCopy(settings, service, log)))
  } catch (error) {
    if (error instanceof Unreadable) return refuseCredentials(settings, log, error)
    if (!(error instanceof Ending)) throw error
    log.error('worker.refused', { exit: error.exit, reason: error.message })
    process.exit(EXIT[error.exit])
  }
}

/** Handles an unexpected error: one report, then exit. A rejected query of a closed connection is expected. */
function endOnSurprise(database: Database, events: Events, log: Log, fail: (ending: Ending) => void): void {
  let reported = false
  const surprise = (error: unknown): void => {
    if (error instanceof Ending) fail(error)
    if (error instanceof Ending || reported) return
    reported = true
    log.error('worker.crashed', { error: describeError(error) })
    // A full disk fails the report as well; the worker ends all the same.
    setTimeout(() => process.exit(EXIT.CRASHED), STOP_LIMIT_MS).unref()
    fail(new Ending('CRASHED', 'an unexpected error'))
    try {
      events.emit('STATUS_CHANGE', { status: 'crashed', error: describeError(error) })
    } catch (failure) {
      log.error('event.not_stored', { error: describeError(failure) })
    }
  }
  database.onDiskFailure = surprise
  process.on('uncaughtException', surprise)
  process.on('unhandledRejection', error => {
    const isExpected = typeof (error as { output?: { statusCode?: number } })?.output?.statusCode === 'number'
    if (isExpected) log.debug('rejection.ignored', { error: describeError(error) })
    else surprise(error)
  })
}

export async function runWorker(settings: Settings): Promise<void> {
  process.umask(0o077)
  const log = makeLog(settings.sessionId, settings.logLevel)
  const orphanhood = new Orphanhood(settings)
  let fail: (ending: Ending) => void = ending => process.exit(EXIT[ending.exit])
  const service = settings.credentials === 'server' ? new CredentialService(settings, orphanhood.answered) : undefined
  const auth = await open(settings, service, log, ending => fail(ending))
  useOwnTemporaryDirectory(settings.authDir)
  const parts = assemble(settings, auth, service, log, orphanhood, ending => fail(ending))
  const { device, sender, keepAlive, events } = parts
  fail = ending => device.fail(ending)
  endOnSurprise(auth.database, events, log, fail)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => device.leave())
  log.info('worker.started', { epoch: settings.epoch, proxied: settings.proxy !== undefined })
  keepAlive.start()
  sender.start(fail)
  setInterval(() => {
    try {
      auth.database.checkEpoch()
      orphanhood.look()
    } catch (error) {
      fail(error instanceof Ending ? error : new Ending('CRASHED', 'the watch failed'))
    }
  }, orphanhood.lookEveryMs)
  const ending = await device.run().then(
    () => undefined,
    (error: unknown) => (error instanceof Ending ? error : new Ending('CRASHED', describeError(error))),
  )
  await finish(parts, ending)
}
