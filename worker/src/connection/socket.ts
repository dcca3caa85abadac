// Makes a Baileys socket: configuration, caches, and a timeout for connections that never open.
import type { Agent } from 'node:https'
import {
  Browsers,
  DEFAULT_CONNECTION_CONFIG,
  makeWASocket,
  proto,
  type SignalKeyStoreWithTransaction,
  type SocketConfig,
  type UserFacingSocketConfig,
  type WASocket,
  type WAVersion,
} from 'baileys'
import { baileysLogger, describeError, type Log } from '../log.ts'
import type { Platform, ProxyAddress, Settings } from '../settings.ts'
import type { Auth } from '../store/auth.ts'
import { Bounded } from '../store/bounded-cache.ts'
import type { Inbox } from '../store/inbox.ts'
import type { Messages } from '../store/message-store.ts'
import { BadFrame } from './disconnect-reasons.ts'
import { answerPings, guardStanzas, isOurs } from './incoming-stanzas.ts'
import { makeDispatcher, ProxyError } from './proxy.ts'

/** A little more than a dial may take, and under the ten seconds within which a hanging proxy must be noticed. */
const OPEN_TIMEOUT_MS = 9_500
const CLOSE_TIMEOUT_MS = 2_000
const FIVE_MINUTES_MS = 5 * 60_000
const HOUR_MS = 60 * 60_000

/** What we ask the phone to tell us at linking: names, LIDs, tokens of acquaintance. Texts in it are dropped unread. */
const HISTORY_WANTED: ReadonlySet<number> = new Set([
  proto.HistorySync.HistorySyncType.PUSH_NAME,
  proto.HistorySync.HistorySyncType.INITIAL_BOOTSTRAP,
])

type HistoryNotice = Parameters<SocketConfig['shouldSyncHistoryMessage']>[0]

/**
 * Every part of the history is taken when it comes: names, LIDs and tokens may be in any. Baileys also asks before recent history
 * has come, with nothing but the type, whether to hold all events back for it, up to 20 s: it shall not.
 */
export const isWanted = ({ syncType, directPath, initialHistBootstrapInlinePayload: inline }: HistoryNotice): boolean =>
  HISTORY_WANTED.has(syncType ?? -1) || !!directPath || !!inline?.length

const SYSTEMS: Record<Platform, (browser: string) => SocketConfig['browser']> = {
  ubuntu: Browsers.ubuntu,
  macos: Browsers.macOS,
  windows: Browsers.windows,
}

/** What this device shows as under "linked devices": system, browser, version. The same for its whole life. */
export function shownAs({ platform, browser }: Pick<Settings, 'platform' | 'browser'>): SocketConfig['browser'] {
  const [system, name, version] = SYSTEMS[platform](browser.name)
  return [system, name, browser.version || version]
}

/** Caches that outlive a reconnect. The device lists need room for the whole working set, or every send repeats its look-ups. */
export const makeCaches = () => ({
  msgRetryCounterCache: new Bounded(1_000, HOUR_MS),
  userDevicesCache: new Bounded(2_000, FIVE_MINUTES_MS),
  callOfferCache: new Bounded(50, FIVE_MINUTES_MS),
  placeholderResendCache: new Bounded(200, HOUR_MS),
})

export type Caches = ReturnType<typeof makeCaches>

type SignalRepository = ReturnType<SocketConfig['makeSignalRepository']>

/** Baileys keeps every LID it has seen for three days, with a timer each; this keeps the last few thousand, without. */
const makeRepository =
  (inbox: Inbox): SocketConfig['makeSignalRepository'] =>
  (...parameters): SignalRepository => {
    const repository = DEFAULT_CONNECTION_CONFIG.makeSignalRepository(...parameters)
    Object.assign(repository.lidMapping, { mappingCache: new Bounded(4_000) })
    return inbox.wrap(repository, parameters[0].keys as SignalKeyStoreWithTransaction)
  }

/** Fetch goes through the proxy too. The dispatcher is made on the first download, because most workers never need it. */
export function makeFetchOptions(proxy: ProxyAddress | undefined): SocketConfig['options'] {
  let dispatcher: object | undefined
  return {
    get dispatcher(): object | undefined {
      if (proxy) dispatcher ??= makeDispatcher(proxy)
      return dispatcher
    },
  } as SocketConfig['options']
}

export type Wiring = {
  settings: Pick<Settings, 'proxy' | 'platform' | 'browser' | 'presence' | 'whatsappKeepAliveMs'>
  auth: Auth
  agent: Agent | undefined
  fetchOptions: SocketConfig['options']
  caches: Caches
  messages: Messages
  inbox: Inbox
  log: Log
}

function configure(
  { settings, auth, agent, fetchOptions, caches, messages, inbox, log }: Wiring,
  version: WAVersion,
): UserFacingSocketConfig {
  return {
    ...caches,
    auth: { creds: auth.creds, keys: auth.keys },
    version,
    agent,
    fetchAgent: agent,
    options: fetchOptions,
    browser: shownAs(settings),
    logger: baileysLogger(log),
    connectTimeoutMs: OPEN_TIMEOUT_MS,
    keepAliveIntervalMs: settings.whatsappKeepAliveMs,
    markOnlineOnConnect: settings.presence === 'always',
    syncFullHistory: false,
    shouldSyncHistoryMessage: isWanted,
    enableRecentMessageCache: true,
    getMessage: async key => messages.findForRetry(key)?.message ?? undefined,
    makeSignalRepository: makeRepository(inbox),
    transactionOpts: { maxCommitRetries: 3, delayBetweenTriesMs: 200 },
  }
}

type RawSocket = { terminate(): void }
type Client = { socket: RawSocket | null; close(): Promise<void> }

/** A peer that does not answer our close would hold us for half a minute. */
function closeQuickly(sock: WASocket): void {
  const client = sock.ws as unknown as Client
  const close = client.close.bind(client)
  client.close = () => {
    const raw = client.socket
    setTimeout(() => raw?.terminate(), CLOSE_TIMEOUT_MS).unref()
    return close()
  }
}

function watchOpening(sock: WASocket, proxy: ProxyAddress | undefined): void {
  const notice = (): void => {
    if (sock.ws.isOpen) return
    const text = `no connection within ${OPEN_TIMEOUT_MS} ms`
    void sock.end(proxy ? new ProxyError('dropped', text) : new Error(text))
  }
  const watchdog = setTimeout(notice, OPEN_TIMEOUT_MS)
  sock.ws.once('open', () => clearTimeout(watchdog))
  sock.ws.once('close', () => clearTimeout(watchdog))
}

/** Baileys decodes frames in a promise that nobody awaits: one bad frame would be an unhandled rejection, and our end. */
function closeOnBadFrame(sock: WASocket): void {
  const [decode] = sock.ws.listeners('message') as ((data: Buffer) => Promise<void>)[]
  if (!decode) throw new Error('this Baileys reads no frames')
  sock.ws.off('message', decode)
  sock.ws.on('message', (data: Buffer) =>
    decode(data).catch(error => {
      if (isOurs(error)) throw error
      void sock.end(new BadFrame(describeError(error)))
    }),
  )
}

/**
 * Baileys announces a new name by a presence without a type, which WhatsApp reads as "available", and takes every change of
 * the credentials that carries no name for a new one. With the name beside it, unseen by whoever stores the change, it does not;
 * and a name that is new indeed is stored before Baileys compares, because our own presence announces it with its type.
 */
function announceNoNames(sock: WASocket, { creds }: Auth): void {
  const emit = sock.ev.emit.bind(sock.ev)
  sock.ev.emit = (event, data) => {
    if (event !== 'creds.update') return emit(event, data)
    const { me } = data as Partial<Auth['creds']>
    if (me?.name && creds.me) creds.me.name = me.name
    return emit(event, me ? data : Object.defineProperty({ ...data }, 'me', { value: creds.me }))
  }
}

/**
 * The manager of retries comes with a cache of sent messages, which our own store replaces. Without it one message that cannot
 * be decrypted would hold back all that follow for two seconds, and always trouble the phone.
 */
function keepNoRecentMessages(sock: WASocket): void {
  const manager = sock.messageRetryManager
  if (!manager) throw new Error('this Baileys has no manager of retries')
  manager.addRecentMessage = () => undefined
  manager.getRecentMessage = () => undefined
}

/** The browser that this device is registered as. */
export const browserOf = ({ settings }: Pick<Wiring, 'settings'>): string | undefined => shownAs(settings)[1]

export function connect(wiring: Wiring, version: WAVersion): WASocket {
  const sock = makeWASocket(configure(wiring, version))
  announceNoNames(sock, wiring.auth)
  keepNoRecentMessages(sock)
  guardStanzas(sock, wiring.log)
  answerPings(sock)
  closeQuickly(sock)
  closeOnBadFrame(sock)
  watchOpening(sock, wiring.settings.proxy)
  return sock
}
