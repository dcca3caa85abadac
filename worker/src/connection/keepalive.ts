// Keep-alive: pings to the server, and an occasional note to self for WhatsApp.
import { generateMessageIDV2, generateWAMessage, type WASocket } from 'baileys'
import { baileysLogger, describeError, type Log } from '../log.ts'
import { type Address, otherName } from '../messages/addressing.ts'
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
  readonly #self: () => Address | undefined
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
    self: () => Address | undefined,
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
    this.#write(sock, me).catch(error => this.#log.warn('self_message.not_sent', { error: describeError(error) }))
  }

  /** As any other message, because `sendMessage` of Baileys adds no other name. */
  async #write(sock: WASocket, me: Address): Promise<void> {
    const messageId = generateMessageIDV2(me.jid)
    this.#beforeNote(messageId)
    const { message } = await generateWAMessage(
      me.jid,
      { text: NOTE, linkPreview: null },
      {
        logger: baileysLogger(this.#log),
        userJid: me.jid,
        upload: sock.waUploadToServer,
        messageId,
        ephemeralExpiration: NOTE_LIFE_S,
      },
    )
    await sock.relayMessage(me.jid, message ?? {}, { messageId, additionalAttributes: otherName(me) })
  }
}
