// Keep-alive: pings to the server, and an occasional note to self for WhatsApp.
import { generateMessageIDV2 } from 'baileys'
import { describeError, type Log } from '../log.ts'
import type { Events } from '../server/events.ts'
import type { Settings } from '../settings.ts'
import type { Device } from './device.ts'

const NOTE = '\u{1F504}'
const NOTE_LIFE_S = 24 * 60 * 60

type KeepAliveSettings = Pick<Settings, 'keepAlive' | 'pingIntervalMs' | 'selfMessageIntervalMs'>

export class KeepAlive {
  readonly #settings: KeepAliveSettings
  readonly #device: Device
  readonly #events: Events
  readonly #log: Log
  readonly #isBusy: () => boolean
  readonly #beforeNote: (whatsappId: string) => void
  readonly #self: () => string | undefined
  readonly #onBeat: () => void
  readonly #timers: NodeJS.Timeout[] = []
  #pingDueAt = 0

  /** `beforeNote` hears the id of each note to self, whose receipts are nobody's business; `self` is the chat for them. */
  constructor(
    settings: KeepAliveSettings,
    device: Device,
    events: Events,
    log: Log,
    isBusy: () => boolean,
    beforeNote: (whatsappId: string) => void,
    self: () => string | undefined,
    onBeat: () => void,
  ) {
    this.#settings = settings
    this.#device = device
    this.#events = events
    this.#log = log
    this.#isBusy = isBusy
    this.#beforeNote = beforeNote
    this.#self = self
    this.#onBeat = onBeat
  }

  start(): void {
    const { pingIntervalMs, selfMessageIntervalMs, keepAlive } = this.#settings
    this.#pingDueAt = Date.now()
    this.#beat()
    this.#timers.push(setInterval(() => this.#beat(), pingIntervalMs))
    if (keepAlive) this.#timers.push(setInterval(() => this.#noteToSelf(), selfMessageIntervalMs))
  }

  stop(): void {
    for (const timer of this.#timers) clearInterval(timer)
  }

  #beat(): void {
    const now = Date.now()
    const lagMs = Math.max(0, now - this.#pingDueAt)
    this.#pingDueAt = now + this.#settings.pingIntervalMs
    const { state, lastTrafficAt } = this.#device
    this.#events.emit('PING', {
      timestamp: now,
      socket: state,
      lagMs,
      rssBytes: process.memoryUsage.rss(),
      lastTrafficAt: lastTrafficAt ?? null,
    })
    this.#onBeat()
  }

  #noteToSelf(): void {
    const sock = this.#device.openSocket
    const me = this.#self()
    if (!sock || !me || this.#isBusy()) return
    const messageId = generateMessageIDV2(me)
    this.#beforeNote(messageId)
    sock
      .sendMessage(me, { text: NOTE }, { messageId, ephemeralExpiration: NOTE_LIFE_S })
      .catch(error => this.#log.warn('self_message.not_sent', { error: describeError(error) }))
  }
}
