// Settings from the environment or from NAME_FILE; each wrong one is refused with one line.
import { readFileSync } from 'node:fs'
import type { ExitName } from './exit-codes.ts'

export type Platform = 'ubuntu' | 'macos' | 'windows'
export type Browser = { name: string; version: string }

/** When the device is shown as online; while it is, the owner's phone gets no notifications. */
export type PresenceMode = 'always' | 'while_sending' | 'never'

/** What is told of the chats that the phone has when a device is linked: nothing, who and when, or the last texts, too. */
export type LinkHistoryMode = 'off' | 'contacts' | 'texts'

export type ProxyAddress = { host: string; port: number; username: string; password: string }

export type Settings = {
  sessionId: string
  epoch: number
  proxy: ProxyAddress | undefined
  webhookUrl: URL
  webhookSecret: string
  outboxUrl: URL
  workerToken: string
  authDir: string
  authKey: Buffer | undefined
  previousAuthKey: Buffer | undefined
  platform: Platform
  browser: Browser
  pairingPhone: string | undefined
  keepAlive: boolean
  presence: PresenceMode
  logLevel: string
  orphanTimeoutMs: number
  pingIntervalMs: number
  selfMessageIntervalMs: number
  ackTimeoutMs: number
  claimWaitMs: number
  commandWaitMs: number
  reconnectMinMs: number
  reconnectMaxMs: number
  linkTimeoutMs: number
  typingMaxMs: number
  /** Whether the server lets people answer when WhatsApp asks for the account's passkey. */
  passkeyLinking: boolean
  /** How long the phone may take to go on after the passkey's answer. */
  passkeyPhoneMs: number
  /** Whether calls to the account are rejected at once. */
  rejectCalls: boolean
  linkHistory: LinkHistoryMode
  /** How long what WhatsApp sends and we do not know is counted before it is reported. */
  driftAfterMs: number
  /** The newest revision of WhatsApp Web that another session of the server was accepted with; 0 if none is known. */
  knownRevision: number
  /** How long to wait for an undecryptable message to be sent again before it is reported. */
  undecryptableAfterMs: number
  whatsappKeepAliveMs: number
  /** How long after opening the connection memory is tidied up. */
  settleAfterMs: number
  /** Where the newest credentials are: in AUTH_DIR alone, or also at the server, from which any directory is filled. */
  credentials: 'local' | 'server'
  /** After so long without a sign from the server the device is off WhatsApp; 0 if it stays. */
  fenceMs: number
}

export type Refusal = { exit: ExitName; variable: string; problem: string; example: string }

type Environment = Record<string, string | undefined>

class Refused extends Error {
  readonly refusal: Refusal
  constructor(refusal: Refusal) {
    super(refusal.problem)
    this.refusal = refusal
  }
}

const refuse = (variable: string, problem: string, example: string, exit: ExitName = 'SETTING_INVALID'): never => {
  throw new Refused({ exit, variable, problem, example })
}

function look(env: Environment, name: string): string | undefined {
  const path = env[`${name}_FILE`]
  if (path === undefined || path === '') return env[name] === '' ? undefined : env[name]
  if (env[name])
    refuse(name, `given twice: as ${name} and as ${name}_FILE`, `only ${name}_FILE=/run/secrets/${name.toLowerCase()}`)
  try {
    return readFileSync(path, 'utf8').trim() || undefined
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable'
    return refuse(
      `${name}_FILE`,
      `the file cannot be read (${reason})`,
      `${name}_FILE=/run/secrets/${name.toLowerCase()}`,
    )
  }
}

const required = (env: Environment, name: string, example: string): string =>
  look(env, name) ?? refuse(name, 'is required', `${name}=${example}`, 'SETTING_MISSING')

function sessionId(env: Environment): string {
  const value = required(env, 'SESSION_ID', 'worker_1')
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(value))
    refuse('SESSION_ID', 'must be 1 to 64 letters, digits, _ or -', 'SESSION_ID=worker_1')
  return value
}

/** OUTBOX_URL, or where it is on the server of WEBHOOK_URL: `…/webhook` and `…/api/webhook` are its two addresses. */
function outboxUrl(env: Environment): URL {
  const example = 'http://orchestrator.example.com:3001/api/worker/sessions/worker_1/outbox'
  const server = look(env, 'WEBHOOK_URL')?.match(/^(https?:.*?)(\/api)?\/webhook\/?$/)?.[1]
  if (look(env, 'OUTBOX_URL') !== undefined || server === undefined) return httpUrl(env, 'OUTBOX_URL', example)
  return new URL(`${server}/api/worker/sessions/${sessionId(env)}/outbox`)
}

function httpUrl(env: Environment, name: string, example: string): URL {
  const url = URL.parse(required(env, name, example))
  if (!url || !/^https?:$/.test(url.protocol))
    return refuse(name, 'must be an http or https address', `${name}=${example}`)
  return url
}

function integer(env: Environment, name: string, fallback: number | undefined, least = 0): number {
  const text = look(env, name)
  if (text === undefined) return fallback ?? refuse(name, 'is required', `${name}=1`, 'SETTING_MISSING')
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < least)
    refuse(name, `must be a whole number of at least ${least}`, `${name}=${fallback ?? 1}`)
  return value
}

function flag(env: Environment, name: string, fallback: boolean): boolean {
  const text = look(env, name)?.toLowerCase()
  if (text === undefined) return fallback
  if (['true', '1', 'yes', 'on'].includes(text)) return true
  if (['false', '0', 'no', 'off'].includes(text)) return false
  return refuse(name, 'must be true or false', `${name}=${fallback}`)
}

const PROXY_EXAMPLE = 'PROXY_URL=socks5h://user:password@proxy.example.com:1080'

/** A percent sign that stands for itself is left as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Only socks5h is taken: with anything else WhatsApp's name would be resolved on this machine, which leaks it. */
function proxy(env: Environment): ProxyAddress | undefined {
  const text = look(env, 'PROXY_URL')
  if (text === undefined) {
    if (flag(env, 'ALLOW_DIRECT', false)) return undefined
    return refuse(
      'PROXY_URL',
      'is required (or ALLOW_DIRECT=true to try it out without a proxy)',
      PROXY_EXAMPLE,
      'SETTING_MISSING',
    )
  }
  const url = URL.parse(text)
  if (url?.protocol !== 'socks5h:') {
    return refuse(
      'PROXY_URL',
      'must begin with socks5h://, so that names are resolved by the proxy and not here',
      PROXY_EXAMPLE,
      'PROXY_REFUSED',
    )
  }
  const port = Number(url.port || '1080')
  if (!url.hostname || port < 1) return refuse('PROXY_URL', 'has no host', PROXY_EXAMPLE, 'PROXY_REFUSED')
  const [username, password] = [decoded(url.username), decoded(url.password)]
  if (Buffer.byteLength(username) > 255 || Buffer.byteLength(password) > 255) {
    return refuse('PROXY_URL', 'user and password may have 255 bytes each', PROXY_EXAMPLE, 'PROXY_REFUSED')
  }
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port, username, password }
}

function webhookSecret(env: Environment): string {
  const value = required(env, 'WEBHOOK_SECRET', 'whsec_<base64>')
  const body = value.replace(/^whsec_/, '')
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(body) || Buffer.from(body, 'base64').length < 16) {
    refuse('WEBHOOK_SECRET', 'must be whsec_ and at least 16 bytes in base64', 'WEBHOOK_SECRET=whsec_<base64>')
  }
  return value
}

/** 32 bytes as base64 or hex; they seal credentials at rest. */
function authKey(env: Environment, name = 'AUTH_KEY'): Buffer | undefined {
  const text = look(env, name)
  if (text === undefined) return undefined
  const key = /^[0-9a-fA-F]{64}$/.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64')
  if (key.length !== 32)
    refuse(name, 'must be 32 bytes in base64 or hex', `${name}_FILE=/run/secrets/${name.toLowerCase()}`)
  return key
}

/** Those of WhatsApp's list of platforms that a person links on a computer. */
const BROWSER_NAMES: ReadonlySet<string> = new Set(['Chrome', 'Edge', 'Firefox', 'Opera', 'Safari'])

/** WhatsApp accepts only the names of real systems here; a brand makes linking by code fail. */
function platform(env: Environment): Platform {
  const name = (look(env, 'DEVICE_NAME') ?? 'ubuntu').toLowerCase().split('/')[0] ?? ''
  if (name.includes('mac')) return 'macos'
  if (name.includes('windows')) return 'windows'
  if (name.includes('ubuntu') || name.includes('linux')) return 'ubuntu'
  return refuse('DEVICE_NAME', 'must name Ubuntu, Mac OS or Windows', 'DEVICE_NAME=Ubuntu')
}

/** `DEVICE_NAME` may name a browser after its system, and its version: `Windows/Edge/120.0`. Without one it is Chrome. */
function browser(env: Environment): Browser {
  const [, name = 'Chrome', version = ''] = (look(env, 'DEVICE_NAME') ?? '').split('/')
  if (!BROWSER_NAMES.has(name) || !/^(\d{1,4}(\.\d{1,6}){0,3})?$/.test(version))
    refuse('DEVICE_NAME', `must name one of ${[...BROWSER_NAMES].join(', ')}`, 'DEVICE_NAME=Windows/Edge/120.0')
  return { name, version }
}

function pairingPhone(env: Environment): string | undefined {
  const digits = look(env, 'PAIRING_PHONE')?.replace(/[+\s-]/g, '')
  if (digits !== undefined && !/^\d{8,15}$/.test(digits))
    refuse('PAIRING_PHONE', 'must be 8 to 15 digits', 'PAIRING_PHONE=972501234567')
  return digits
}

function presence(env: Environment): PresenceMode {
  const mode = look(env, 'PRESENCE') ?? (flag(env, 'ENABLE_KEEP_ALIVE', true) ? 'always' : 'while_sending')
  if (mode === 'always' || mode === 'while_sending' || mode === 'never') return mode
  return refuse('PRESENCE', 'must be always, while_sending or never', 'PRESENCE=while_sending')
}

function linkHistory(env: Environment): LinkHistoryMode {
  const mode = look(env, 'LINK_HISTORY') ?? 'off'
  if (mode === 'off' || mode === 'contacts' || mode === 'texts') return mode
  return refuse('LINK_HISTORY', 'must be off, contacts or texts', 'LINK_HISTORY=contacts')
}

function credentials(env: Environment): Settings['credentials'] {
  const place = look(env, 'CREDENTIALS') ?? 'local'
  if (place === 'local' || place === 'server') return place
  return refuse('CREDENTIALS', 'must be local or server', 'CREDENTIALS=server')
}

function logLevel(env: Environment): string {
  const level = (look(env, 'LOG_LEVEL') ?? 'info').toLowerCase()
  if (!['debug', 'info', 'warn', 'error', 'silent'].includes(level))
    refuse('LOG_LEVEL', 'must be debug, info, warn, error or silent', 'LOG_LEVEL=info')
  return level
}

/** The few that an export needs. */
export type StoreSettings = Pick<Settings, 'sessionId' | 'authDir' | 'authKey' | 'previousAuthKey'>

type Readers<T> = { [K in keyof T]: (env: Environment) => T[K] }

const storeReaders: Readers<StoreSettings> = {
  sessionId,
  authDir: env => look(env, 'AUTH_DIR') ?? `/app/sessions/${sessionId(env)}`,
  authKey: env => authKey(env),
  previousAuthKey: env => authKey(env, 'AUTH_KEY_PREVIOUS'),
}

const readers: Readers<Settings> = {
  ...storeReaders,
  epoch: env => integer(env, 'EPOCH', undefined),
  proxy,
  webhookUrl: env => httpUrl(env, 'WEBHOOK_URL', 'http://orchestrator.example.com:3001/webhook'),
  webhookSecret,
  outboxUrl,
  workerToken: env => required(env, 'WORKER_TOKEN', '<token>'),
  platform,
  browser,
  pairingPhone,
  keepAlive: env => flag(env, 'ENABLE_KEEP_ALIVE', true),
  presence,
  logLevel,
  orphanTimeoutMs: env => integer(env, 'ORPHAN_TIMEOUT_MS', 30 * 60_000, 100),
  pingIntervalMs: env => integer(env, 'PING_INTERVAL_MS', 15_000, 50),
  selfMessageIntervalMs: env => integer(env, 'SELF_MESSAGE_INTERVAL_MS', 10 * 60_000, 100),
  ackTimeoutMs: env => integer(env, 'ACK_TIMEOUT_MS', 75_000, 100),
  claimWaitMs: env => integer(env, 'CLAIM_WAIT_MS', 25_000, 0),
  commandWaitMs: env => integer(env, 'COMMAND_WAIT_MS', 3_000, 50),
  reconnectMinMs: env => integer(env, 'RECONNECT_MIN_MS', 1_000, 10),
  reconnectMaxMs: env => integer(env, 'RECONNECT_MAX_MS', 60_000, 10),
  linkTimeoutMs: env => integer(env, 'LINK_TIMEOUT_MS', 15 * 60_000, 100),
  undecryptableAfterMs: env => integer(env, 'UNDECRYPTABLE_AFTER_MS', 5_000, 0),
  knownRevision: env => integer(env, 'WHATSAPP_REVISION', 0, 0),
  driftAfterMs: env => integer(env, 'DRIFT_AFTER_MS', 30_000, 0),
  passkeyLinking: env => flag(env, 'PASSKEY_LINKING', false),
  passkeyPhoneMs: env => integer(env, 'PASSKEY_PHONE_MS', 120_000, 100),
  rejectCalls: env => flag(env, 'REJECT_CALLS', false),
  linkHistory,
  typingMaxMs: env => integer(env, 'TYPING_MAX_MS', 8_000, 0),
  whatsappKeepAliveMs: env => integer(env, 'WHATSAPP_KEEP_ALIVE_MS', 30_000, 100),
  settleAfterMs: env => integer(env, 'SETTLE_AFTER_MS', 60_000, 0),
  credentials,
  fenceMs: env => integer(env, 'FENCE_MS', 0, 0),
}

function readAll<T>(table: Readers<T>, env: Environment): { settings: T } | { refusals: Refusal[] } {
  const settings: Partial<T> = {}
  const refusals = new Map<string, Refusal>()
  for (const name of Object.keys(table) as (keyof T)[]) {
    try {
      settings[name] = table[name](env)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      refusals.set(error.refusal.variable, error.refusal)
    }
  }
  return refusals.size ? { refusals: [...refusals.values()] } : { settings: settings as T }
}

/** Reads everything and finds all problems at once. */
export const readSettings = (env: Environment): { settings: Settings } | { refusals: Refusal[] } =>
  readAll(readers, env)

export const readStoreSettings = (env: Environment): { settings: StoreSettings } | { refusals: Refusal[] } =>
  readAll(storeReaders, env)
