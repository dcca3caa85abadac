// The linked device: connects and reconnects until a disconnect is final.
import { createHash } from 'node:crypto'
import {
  type BinaryNode,
  type ConnectionState,
  getBinaryNodeChild,
  jidDecode,
  type WASocket,
  type WAVersion,
} from 'baileys'
import { Ending } from '../exit-codes.ts'
import { describeError, type Log } from '../log.ts'
import { hashOfKnown } from '../messages/device-hash.ts'
import type { Events } from '../server/events.ts'
import type { Settings } from '../settings.ts'
import { type Auth, forgetUnfinishedLink, isLinked } from '../store/auth.ts'
import { classify, type End } from './disconnect-reasons.ts'
import type { Fence } from './fence.ts'
import { Linking, type PairingCode } from './linking.ts'
import type { Assertion } from './passkey.ts'
import { browserOf, connect, type Wiring } from './socket.ts'
import { backoffMs, sleep, within } from './timing.ts'
import type { Version } from './version.ts'

/** A connection that lasted this long was a success; one that did not counts as one more failure. */
const STABLE_MS = 30_000
/** One bad frame is an accident; so many within a minute are nothing that another connection cures. */
const MOST_BAD_FRAMES = 3
const MINUTE_MS = 60_000

export type DeviceParts = {
  settings: Pick<
    Settings,
    'reconnectMinMs' | 'reconnectMaxMs' | 'linkTimeoutMs' | 'pairingPhone' | 'passkeyLinking' | 'passkeyPhoneMs'
  >
  wiring: Wiring
  auth: Auth
  fence: Fence
  version: Version
  events: Events
  log: Log
  /** Called with every new socket, before it opens. */
  onSocket: (sock: WASocket) => void
  onOpen: (sock: WASocket) => void
}

export class Device {
  readonly #parts: DeviceParts
  readonly #stopped = new AbortController()
  readonly #startedAt = Date.now()
  #ending: Ending | undefined
  #sock: WASocket | undefined
  #linking: Linking | undefined
  #openedAt: number | undefined
  #wasOpenMs: number | undefined
  #failures = 0
  #badFramesAt: number[] = []
  #versionOverride: WAVersion | undefined
  #revision = 0
  #pairingPhone: string | undefined
  readonly #onClose = new WeakMap<WASocket, Set<() => void>>()
  #waiters: (() => void)[] = []
  #leave: () => void = () => undefined
  readonly #left = new Promise<void>(resolve => (this.#leave = resolve))
  lastTrafficAt: number | undefined

  constructor(parts: DeviceParts) {
    this.#parts = parts
    this.#pairingPhone = parts.settings.pairingPhone
  }

  get isOpen(): boolean {
    return this.#openedAt !== undefined
  }

  get state(): 'open' | 'connecting' | 'closed' {
    return this.isOpen ? 'open' : this.#sock ? 'connecting' : 'closed'
  }

  get openSocket(): WASocket | undefined {
    return this.isOpen ? this.#sock : undefined
  }

  /** The open socket, at once or within `ms`. */
  async whenOpen(ms: number): Promise<WASocket | undefined> {
    if (!this.isOpen) await within(ms, new Promise<void>(resolve => this.#waiters.push(resolve)), () => undefined)
    return this.openSocket
  }

  /** Calls back once when this socket has closed, at once if it has. The result takes that back, so that a long life leaves nothing behind. */
  onClosed(sock: WASocket, callback: () => void): () => void {
    const waiting = this.#onClose.get(sock)
    if (!waiting) callback()
    waiting?.add(callback)
    return () => void waiting?.delete(callback)
  }

  /** Makes the next send ask again which devices the recipient has. */
  forgetDevices(jid: string): void {
    const user = jidDecode(jid)?.user
    if (user) this.#parts.wiring.caches.userDevicesCache.del(user)
  }

  /** The hash of the devices that these people are known to have, and of our own; undefined if one of them is not known. */
  hashOfDevices(people: string[], self: string | undefined): string | undefined {
    return hashOfKnown(this.#parts.wiring.caches.userDevicesCache, people, self)
  }

  /** The person's part of linking with a passkey. */
  async answerPasskey(answer: Assertion | 'confirmed'): Promise<void> {
    if (isLinked(this.#parts.auth.creds)) throw new Error('ALREADY_LINKED')
    if (!this.#linking) throw new Error('NOT_CONNECTED')
    if (answer === 'confirmed') await this.#linking.confirmed()
    else await this.#linking.signed(answer)
  }

  async requestPairingCode(phone: string): Promise<PairingCode> {
    if (isLinked(this.#parts.auth.creds)) throw new Error('ALREADY_LINKED')
    if (!this.#linking) throw new Error('NOT_CONNECTED')
    const code = await this.#linking.requestCode(phone)
    this.#pairingPhone = phone
    return code
  }

  /** Asks `run` to return; the connection stays, so that what is in hand can be finished. */
  leave(): void {
    this.#stopped.abort()
    this.#leave()
  }

  /** Ends the worker for a reason of its own; `run` throws it. */
  fail(ending: Ending): void {
    this.#ending ??= ending
    this.leave()
  }

  /** Closes the connection for now; `run` connects again when the fence allows it. */
  drop(): void {
    if (!this.#sock) return
    this.#parts.log.warn('connection.fenced', {})
    void this.#sock.end(undefined)
  }

  /** Closes the connection. */
  stop(): void {
    this.leave()
    this.#sock?.ev.flush()
    void this.#sock?.end(undefined)
  }

  /** Keeps the device connected. Returns when stopped; throws Ending when the end is final. */
  async run(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const end = await Promise.race([this.#connectOnce(), this.#left])
      if (!end || this.#stopped.signal.aborted) break
      await this.#obey(end)
    }
    if (this.#ending) throw this.#ending
  }

  async #connectOnce(): Promise<End> {
    let error: unknown
    this.#wasOpenMs = undefined
    try {
      await this.#parts.fence.held()
      await this.#parts.auth.database.durable()
      const version = this.#versionOverride ?? (await this.#parts.version.current())
      await this.#parts.fence.held() // again: what was waited for since may have taken longer than the fence lasts
      if (this.#stopped.signal.aborted) return classify(undefined, Date.now())
      this.#revision = version[2]
      error = await this.#session(version)
    } catch (thrown) {
      error = thrown
    }
    const end = classify(error, Date.now())
    const fields = end.kind === 'proxy' ? { stage: end.error.stage } : { reason: end.reason, code: end.code }
    this.#parts.log.info('connection.closed', { kind: end.kind, ...fields, error: describeError(error) })
    return end
  }

  /** One socket, from dialling to its end. */
  async #session(version: WAVersion): Promise<unknown> {
    const { auth, wiring, events, log, onSocket } = this.#parts
    const sock = connect(wiring, version)
    this.#sock = sock
    const waiting = new Set<() => void>()
    this.#onClose.set(sock, waiting)
    const closed = new Promise<unknown>(resolve => {
      sock.ev.on('connection.update', update => {
        this.#updated(sock, update)
        if (update.connection !== 'close') return
        if (this.#openedAt !== undefined) this.#wasOpenMs = Date.now() - this.#openedAt
        this.#openedAt = undefined
        resolve(update.lastDisconnect?.error)
      })
    })
    sock.ev.on('creds.update', update => auth.credsChanged(update))
    sock.ws.on('frame', () => (this.lastTrafficAt = Date.now()))
    sock.ws.on('CB:ib,,client_expiration', (node: BinaryNode) => void this.#versionExpires(node))
    this.#linking = new Linking(sock, auth, events, log, ending => this.fail(ending), {
      isOn: this.#parts.settings.passkeyLinking,
      browser: browserOf(wiring),
      phoneMs: this.#parts.settings.passkeyPhoneMs,
    })
    onSocket(sock)
    const error = await closed
    this.#onClose.delete(sock)
    for (const callback of waiting) callback()
    this.#sock = undefined
    this.#linking?.closed()
    this.#linking = undefined
    if (!isLinked(auth.creds)) {
      forgetUnfinishedLink(auth.creds)
      auth.saveCreds()
    }
    return error
  }

  #updated(sock: WASocket, { connection, qr, isNewLogin }: Partial<ConnectionState>): void {
    if (isNewLogin) this.#linking?.accepted()
    if (qr) this.#qrCame(qr)
    if (connection === 'open') this.#opened(sock)
  }

  #qrCame(qr: string): void {
    const linking = this.#linking
    if (!linking) return
    const phone = this.#pairingPhone
    const byCode = linking.isFirstQr && phone !== undefined
    linking.showQr(qr, byCode ? 'hide' : 'show')
    if (byCode) linking.requestCode(phone).catch(() => undefined)
  }

  #opened(sock: WASocket): void {
    const { auth, events, log, onOpen } = this.#parts
    this.#openedAt = Date.now()
    this.#versionOverride = undefined
    const me = auth.creds.me
    const jid = me?.id ?? ''
    const fingerprint = createHash('sha256').update(auth.creds.signedIdentityKey.public).digest('hex').slice(0, 16)
    events.emit('CONNECTED', {
      phoneNumber: jidDecode(jid)?.user ?? '',
      jid,
      ...(me?.lid ? { lid: me.lid } : {}),
      fingerprint,
      revision: this.#revision,
    })
    log.info('connection.open', { fingerprint })
    for (const resolve of this.#waiters.splice(0)) resolve()
    onOpen(sock)
  }

  async #obey(end: End): Promise<void> {
    const wasOpen = this.#wasOpenMs !== undefined
    if ((this.#wasOpenMs ?? 0) >= STABLE_MS) this.#failures = 0
    if (end.kind === 'proxy') {
      this.#parts.events.emit('PROXY_ERROR', { error: end.error.message, stage: end.error.stage })
      return this.#pause()
    }
    if (end.kind === 'final' && (end.code !== 401 || isLinked(this.#parts.auth.creds))) throw this.#final(end)
    if (end.kind === 'restart') return this.#restart(end, wasOpen)
    if (end.kind === 'outdated') return this.#outdated(end)
    if (end.reason === 'BAD_FRAME') this.#countBadFrame(end)
    this.#disconnected(end, true)
    return this.#pause()
  }

  #countBadFrame(end: Extract<End, { kind: 'retry' | 'final' }>): void {
    const now = Date.now()
    this.#badFramesAt = [...this.#badFramesAt.filter(at => now - at < MINUTE_MS), now]
    if (this.#badFramesAt.length < MOST_BAD_FRAMES) return
    this.#disconnected(end, false)
    this.#parts.events.emit('STATUS_CHANGE', { status: 'crashed', error: 'several frames could not be decoded' })
    throw new Ending('CRASHED', 'several frames could not be decoded')
  }

  #disconnected({ reason, code, ...more }: Exclude<End, { kind: 'proxy' }>, willReconnect: boolean): void {
    const expiresAt = 'endsAt' in more && more.endsAt !== undefined ? { expiresAt: more.endsAt } : {}
    const refused = reason === 'CLIENT_OUTDATED' ? { revision: this.#revision } : {}
    this.#parts.events.emit('DISCONNECTED', { reason, code, willReconnect, ...expiresAt, ...refused })
  }

  #final(end: Extract<End, { kind: 'final' }>): Ending {
    this.#disconnected(end, false)
    return new Ending(end.exit, `WhatsApp ended the session: ${end.reason}`)
  }

  /** After pairing WhatsApp asks for a restart, and a QR that ran out is followed by the next: neither is a disconnection. */
  #restart(end: Extract<End, { kind: 'restart' }>, wasOpen: boolean): void {
    if (end.reason === 'QR_EXPIRED' && Date.now() - this.#startedAt > this.#parts.settings.linkTimeoutMs) {
      this.#disconnected(end, false)
      throw new Ending('QR_EXPIRED', 'nobody scanned the QR code')
    }
    if (wasOpen) this.#disconnected(end, true)
  }

  /** WhatsApp names the second from which it refuses our version, or withdraws it: look for a newer one in time. */
  async #versionExpires(node: BinaryNode): Promise<void> {
    const { events, log, version } = this.#parts
    const at = Number(getBinaryNodeChild(node, 'client_expiration')?.attrs.t ?? 0)
    const expiresAt = Number.isSafeInteger(at * 1000) ? Math.max(0, at * 1000) : 0
    events.emit('CLIENT_EXPIRATION', { expiresAt, revision: this.#revision ?? 0 })
    if (expiresAt === 0) return
    try {
      await version.refreshed()
    } catch (error) {
      log.warn('version.not_refreshed', { error: describeError(error) })
    }
  }

  /** WhatsApp refuses our version: look for a newer one, once. */
  async #outdated(end: Extract<End, { kind: 'outdated' }>): Promise<void> {
    if (this.#versionOverride) {
      this.#disconnected(end, false)
      throw new Ending('CLIENT_OUTDATED', 'WhatsApp does not accept this version')
    }
    try {
      this.#versionOverride = await this.#parts.version.refreshed()
    } catch (error) {
      this.#parts.log.warn('version.not_refreshed', { error: describeError(error) })
      await this.#pause()
    }
  }

  async #pause(): Promise<void> {
    const { reconnectMinMs, reconnectMaxMs } = this.#parts.settings
    await sleep(backoffMs(this.#failures++, reconnectMinMs, reconnectMaxMs), this.#stopped.signal)
  }
}
