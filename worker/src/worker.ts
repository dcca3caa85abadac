// Assembles the worker's parts and stops them in order.
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { unpadRandomMax16 } from 'baileys'
import { Limits } from './account-limits.ts'
import { Addressing } from './addressing.ts'
import { type Auth, openAuth } from './auth.ts'
import { Commands } from './commands.ts'
import { Unreadable } from './database.ts'
import { Device } from './device.ts'
import { Drift } from './drift.ts'
import { Events } from './events.ts'
import { Ending, EXIT, type ExitName } from './exit-codes.ts'
import { Inbox } from './inbox.ts'
import { Receiver } from './incoming-messages.ts'
import { KeepAlive } from './keepalive.ts'
import { describeError, type Log, makeLog } from './log.ts'
import { Proofs } from './message-acks.ts'
import { Messages } from './message-store.ts'
import { Outbox } from './outbox.ts'
import { Sender } from './outgoing-messages.ts'
import { Presence } from './presence.ts'
import { TunnelAgent } from './proxy.ts'
import type { Settings } from './settings.ts'
import { makeSettling } from './settled-signal.ts'
import { makeCaches, makeFetchOptions, type Wiring } from './socket.ts'
import { Undecryptable } from './undecryptable-messages.ts'
import { Version } from './version.ts'

const STOP_LIMIT_MS = 9_500
const FINISH_SENDING_MS = 7_000
const REPORT_MS = 5_000
const LAST_REPORT_MS = 1_500

type Parts = {
  auth: Auth
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
  log: Log,
  orphanhood: Orphanhood,
  fail: (ending: Ending) => void,
): Parts {
  const { database } = auth
  const events = new Events(settings, log, { answered: orphanhood.answered, fenced: fail }, database)
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
  const proofs = new Proofs((whatsappId, messageId, at) => {
    sender
      .acknowledgeLate(whatsappId, messageId, at)
      .catch(error => (error instanceof Ending ? fail(error) : undefined))
  })
  const wiring: Wiring = { settings, auth, agent, fetchOptions, caches: makeCaches(), messages, inbox, log }
  const version = new Version(settings.authDir, agent, settings.knownRevision, log)
  const addressing = new Addressing(auth, log)
  const device = new Device({
    settings,
    wiring,
    auth,
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
  const limits = new Limits(device, events, log)
  const presence = new Presence(settings.presence, device, log)
  const settle = makeSettling(settings.settleAfterMs)
  const flush = (): void => {
    auth.flush()
    events.flush()
  }
  const store = { database, directory: settings.authDir, flush }
  const commands = new Commands(device, outbox, messages, store, fetchOptions, log)
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
  })
  const keepAlive = new KeepAlive(
    settings,
    device,
    events,
    log,
    () => sender.busy,
    whatsappId => receiver.ignore(whatsappId),
    () => addressing.self,
    () => presence.beat(),
  )
  return { auth, events, device, sender, keepAlive, limits, presence, undecryptable, drift, log }
}

/** Lets go of everything in order and ends the process. What cannot be reported now is in the file and will be reported at the next start. */
async function finish(
  { auth, events, device, sender, keepAlive, limits, presence, undecryptable, drift, log }: Parts,
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

async function open(settings: Settings, log: Log, fail: (ending: Ending) => void): Promise<Auth> {
  try {
    return await openAuth(settings, settings.epoch, fail)
  } catch (error) {
    if (error instanceof Unreadable) return refuseCredentials(settings, log, error)
    if (!(error instanceof Ending)) throw error
    log.error('worker.refused', { exit: error.exit, reason: error.message })
    process.exit(EXIT[error.exit])
  }
}

/** An error that nobody expected: one report, then the end. A rejected query of a closed connection is expected. */
function endOnSurprise(events: Events, log: Log, fail: (ending: Ending) => void): void {
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
  const auth = await open(settings, log, ending => fail(ending))
  useOwnTemporaryDirectory(settings.authDir)
  const parts = assemble(settings, auth, log, orphanhood, ending => fail(ending))
  const { device, sender, keepAlive, events } = parts
  fail = ending => device.fail(ending)
  endOnSurprise(events, log, fail)
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
