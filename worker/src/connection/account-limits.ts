// WhatsApp's limits on new contacts for this account. The worker reports them; the server decides.
import type { WASocket } from 'baileys'
import { describeError, type Log } from '../log.ts'
import type { Events } from '../server/events.ts'
import type { Device } from './device.ts'
import { within } from './timing.ts'

const REFRESH_MS = 30 * 60_000
const DEBOUNCE_MS = 60_000
const ANSWER_MS = 10_000

type Lock = { active: boolean; type: string; endsAt?: number }
type Cap = { status: string; used?: number; total?: number; endsAt?: number }

type RawLock = { isActive?: boolean; timeEnforcementEnds?: Date; enforcementType?: string }
type RawCap = { capping_status?: string; used_quota?: unknown; total_quota?: unknown; cycle_end_timestamp?: string }

/** Decided by `isActive` alone: the type is a text that WhatsApp extends at will. */
export function readLock(raw: RawLock): Lock {
  const active = raw.isActive === true
  const endsAt = raw.timeEnforcementEnds?.getTime()
  return { active, type: String(raw.enforcementType ?? 'DEFAULT'), ...(active && endsAt ? { endsAt } : {}) }
}

export function readCap(raw: RawCap | null | undefined): Cap | undefined {
  if (!raw?.capping_status) return undefined
  const endsAt = Number(raw.cycle_end_timestamp) * 1000
  const used = wholeNumber(raw.used_quota)
  const total = wholeNumber(raw.total_quota)
  return {
    status: String(raw.capping_status),
    ...(used === undefined ? {} : { used }),
    ...(total === undefined ? {} : { total }),
    ...(endsAt > 0 ? { endsAt } : {}),
  }
}

/** WhatsApp writes some of its numbers as texts. One that is none is left out: the server would refuse the whole report. */
function wholeNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && value ? Number(value) : value
  return Number.isSafeInteger(number) ? (number as number) : undefined
}

export class Limits {
  readonly #device: Device
  readonly #events: Events
  readonly #log: Log
  #lock: Lock | undefined
  #cap: Cap | undefined
  #reported = ''
  #refusedAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined

  constructor(device: Device, events: Events, log: Log) {
    this.#device = device
    this.#events = events
    this.#log = log
  }

  attach(sock: WASocket): void {
    sock.ev.on('connection.update', ({ reachoutTimeLock }) => {
      if (!reachoutTimeLock) return
      this.#lock = readLock(reachoutTimeLock)
      this.#report()
    })
    sock.ev.on('message-capping.update', update => {
      this.#cap = readCap(update as RawCap)
      this.#report()
    })
  }

  opened(sock: WASocket): void {
    clearInterval(this.#timer)
    this.#reported = ''
    this.#timer = setInterval(() => void this.#fetch(this.#device.openSocket), REFRESH_MS)
    void this.#fetch(sock)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** WhatsApp refused a message as one too many to strangers: whether the account is locked, asked at most once a minute. */
  async isLocked(): Promise<boolean> {
    if (Date.now() - this.#refusedAt >= DEBOUNCE_MS) {
      this.#refusedAt = Date.now()
      await within(ANSWER_MS, this.#fetch(this.#device.openSocket), () => undefined)
    }
    return this.#lock?.active === true
  }

  async #fetch(sock: WASocket | undefined): Promise<void> {
    if (!sock) return
    try {
      this.#cap = readCap(await sock.fetchNewChatMessageCap().catch(() => null)) ?? this.#cap
      this.#lock = readLock(await sock.fetchAccountReachoutTimelock())
      this.#report()
    } catch (error) {
      this.#log.debug('limits.not_fetched', { error: describeError(error) })
    }
  }

  #report(): void {
    const limits = {
      reachoutLock: this.#lock ?? { active: false, type: 'DEFAULT' },
      ...(this.#cap ? { newChatCap: this.#cap } : {}),
    }
    const text = JSON.stringify(limits)
    if (text === this.#reported) return
    this.#reported = text
    this.#events.emit('ACCOUNT_LIMITS', limits)
  }
}
