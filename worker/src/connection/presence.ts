// When this device is shown as online. While it is, WhatsApp sends the owner's phone no notifications.
import type { WASocket } from 'baileys'
import { describeError, type Log } from '../log.ts'
import type { PresenceMode } from '../settings.ts'
import type { Auth } from '../store/auth.ts'
import type { Device } from './device.ts'
import { within } from './timing.ts'

/** After a message the device stays online for the next one, but not for long at a stretch. */
const IDLE_MS = 5_000
const LONGEST_MS = 60_000
const FAREWELL_MS = 500

export class Presence {
  readonly mode: PresenceMode
  readonly #idleMs: number
  readonly #device: Pick<Device, 'openSocket'>
  readonly #log: Log
  #timer: NodeJS.Timeout | undefined
  #isSending = false
  #since = 0

  constructor(mode: PresenceMode, device: Pick<Device, 'openSocket'>, log: Log, idleMs = IDLE_MS) {
    this.mode = mode
    this.#device = device
    this.#log = log
    this.#idleMs = idleMs
  }

  /** The account's name may arrive after the connection opened, and without a name WhatsApp takes no presence. */
  attach(sock: WASocket, auth: Pick<Auth, 'creds'>): void {
    let known = auth.creds.me?.name
    sock.ev.on('creds.update', () => {
      const name = auth.creds.me?.name
      if (!name || name === known) return
      known = name
      void this.announce()
    })
  }

  /** Says what holds now. A new connection starts without a presence, so it is said again. */
  async announce(): Promise<void> {
    await this.#say(this.mode === 'always' || this.#isSending ? 'available' : 'unavailable')
  }

  /** Repeats that the device is online, for accounts that always are. */
  beat(): void {
    if (this.mode === 'always') void this.#say('available')
  }

  /** Whether people see us type. Without being online nobody does. */
  get isTypingShown(): boolean {
    return this.mode !== 'never'
  }

  /** A message is about to be sent. */
  async begin(): Promise<void> {
    if (this.mode !== 'while_sending') return
    clearTimeout(this.#timer)
    if (this.#isSending) return
    this.#isSending = true
    this.#since = Date.now()
    await this.#say('available')
  }

  /** The message is done; the next one may follow at once. In a long run of them the phone gets its turn between two. */
  end(): void {
    if (this.mode !== 'while_sending') return
    clearTimeout(this.#timer)
    const leftMs = this.#since + LONGEST_MS - Date.now()
    this.#timer = setTimeout(() => void this.#leave(), Math.max(0, Math.min(this.#idleMs, leftMs)))
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    if (this.#isSending) await within(FAREWELL_MS, this.#leave(), () => undefined)
  }

  async #leave(): Promise<void> {
    this.#isSending = false
    await this.#say('unavailable')
  }

  async #say(state: 'available' | 'unavailable'): Promise<void> {
    await this.#device.openSocket
      ?.sendPresenceUpdate(state)
      .catch(error => this.#log.debug('presence.not_sent', { error: describeError(error) }))
  }
}
