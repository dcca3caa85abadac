// Incoming messages and receipts, reported as events.
import {
  extractMessageContent,
  getContentType,
  isJidBroadcast,
  isJidGroup,
  isJidNewsletter,
  isLidUser,
  isPnUser,
  jidDecode,
  proto,
  type WAMessage,
  type WAMessageKey,
  type WASocket,
} from 'baileys'
import { Bounded } from './bounded-cache.ts'
import type { Events } from './events.ts'
import type { Inbox } from './inbox.ts'
import { describeError, type Log } from './log.ts'
import type { Messages } from './message-store.ts'
import type { Undecryptable } from './undecryptable-messages.ts'

const STATUS: Record<number, 'delivered' | 'read' | 'played'> = {
  [proto.WebMessageInfo.Status.DELIVERY_ACK]: 'delivered',
  [proto.WebMessageInfo.Status.READ]: 'read',
  [proto.WebMessageInfo.Status.PLAYED]: 'played',
}

const KINDS: Record<string, string> = {
  conversation: 'text',
  extendedTextMessage: 'text',
  imageMessage: 'image',
  videoMessage: 'video',
  audioMessage: 'audio',
  documentMessage: 'document',
  stickerMessage: 'sticker',
  locationMessage: 'location',
  liveLocationMessage: 'location',
  contactMessage: 'contact',
  contactsArrayMessage: 'contact',
  reactionMessage: 'reaction',
}

/** Housekeeping between devices, not something that a person wrote. */
const SILENT = new Set([
  'protocolMessage',
  'senderKeyDistributionMessage',
  'messageContextInfo',
  'keepInChatMessage',
  'pollUpdateMessage',
])

type Content = { kind: string; text?: string; media?: object; location?: object }

type MediaPart = {
  mimetype?: string | null
  fileLength?: unknown
  fileName?: string | null
  caption?: string | null
  seconds?: number | null
}

function mediaOf(part: MediaPart): object {
  return {
    mimetype: part.mimetype ?? undefined,
    size: part.fileLength === undefined || part.fileLength === null ? undefined : Number(part.fileLength),
    filename: part.fileName ?? undefined,
    seconds: part.seconds ?? undefined,
  }
}

function locationOf(place: proto.Message.ILocationMessage | proto.Message.ILiveLocationMessage): object {
  const { name, address } = place as proto.Message.ILocationMessage
  return {
    latitude: place.degreesLatitude,
    longitude: place.degreesLongitude,
    ...(name ? { name } : {}),
    ...(address ? { address } : {}),
  }
}

/** What kind of message it is, and what can be told of it; undefined for housekeeping. */
export function read(message: proto.IMessage | null | undefined): Content | undefined {
  const content = extractMessageContent(message)
  const type = content ? getContentType(content) : undefined
  if (!content || !type || SILENT.has(type)) return undefined
  const kind = KINDS[type] ?? 'other'
  if (kind === 'text') return { kind, text: content.conversation ?? content.extendedTextMessage?.text ?? '' }
  if (kind === 'reaction') return { kind, text: content.reactionMessage?.text ?? '' }
  const place = content.locationMessage ?? content.liveLocationMessage
  if (place) return { kind, location: locationOf(place) }
  const part = content[type] as MediaPart | undefined
  if (!['image', 'video', 'audio', 'document', 'sticker'].includes(kind) || !part) return { kind }
  return { kind, ...(part.caption ? { text: part.caption } : {}), media: mediaOf(part) }
}

type Person = { from: string; phone?: string; lid?: string; group?: string }

/** Who wrote it, by both names where both are known. */
async function personOf(key: WAMessageKey, sock: WASocket): Promise<Person> {
  const group = isJidGroup(key.remoteJid ?? '') ? (key.remoteJid ?? undefined) : undefined
  const jids = (group ? [key.participant, key.participantAlt] : [key.remoteJid, key.remoteJidAlt]).filter(
    jid => typeof jid === 'string',
  )
  const lid = jids.find(jid => isLidUser(jid))
  let pn = jids.find(jid => isPnUser(jid))
  if (!pn && lid) pn = (await sock.signalRepository.lidMapping.getPNForLID(lid)) ?? undefined
  const phone = pn ? jidDecode(pn)?.user : undefined
  return { from: jids[0] ?? '', ...(phone ? { phone } : {}), ...(lid ? { lid } : {}), ...(group ? { group } : {}) }
}

const timeOf = (message: WAMessage): number => Number(message.messageTimestamp ?? Date.now() / 1000) * 1000

export class Receiver {
  readonly #events: Events
  readonly #messages: Messages
  readonly #inbox: Inbox
  readonly #undecryptable: Undecryptable
  readonly #log: Log
  readonly #highest = new Bounded(2_000)
  readonly #seen = new Bounded(2_000)

  constructor(events: Events, messages: Messages, inbox: Inbox, undecryptable: Undecryptable, log: Log) {
    this.#events = events
    this.#messages = messages
    this.#inbox = inbox
    this.#undecryptable = undecryptable
    this.#log = log
  }

  attach(sock: WASocket): void {
    sock.ev.on('messages.upsert', ({ messages }) => {
      for (const message of messages)
        this.#came(message, sock).catch(error => this.#log.error('message.not_read', { error: describeError(error) }))
    })
    sock.ev.on('messages.update', updates => {
      for (const { key, update } of updates)
        this.#progressed(
          key,
          update.status,
          update.messageTimestamp ? Number(update.messageTimestamp) * 1000 : Date.now(),
        )
    })
  }

  /** Says nothing about the receipts of this message. */
  ignore(whatsappId: string): void {
    this.#highest.set(whatsappId, Number.POSITIVE_INFINITY)
  }

  async #came(message: WAMessage, sock: WASocket): Promise<void> {
    const { key } = message
    const chat = key.remoteJid ?? ''
    if (key.fromMe) this.#progressed(key, message.status, Date.now())
    const content = key.fromMe || isJidBroadcast(chat) || isJidNewsletter(chat) ? undefined : read(message.message)
    if (!key.id || !content || this.#inbox.isSettled(key.id)) return this.#settled(key)
    // Replayed and delivered again at the same time: the first one is on its way to the file.
    if (this.#seen.has(`${chat}/${key.id}`)) return
    this.#seen.set(`${chat}/${key.id}`, true)
    if (content.media) this.#messages.remember(message)
    const person = await personOf(key, sock)
    const { pushName } = message
    this.#events.emit('MESSAGE_RECEIVED', {
      whatsappId: key.id,
      ...person,
      ...(pushName ? { pushName } : {}),
      ...content,
      at: timeOf(message),
    })
    this.#undecryptable.resolved(key)
    this.#settled(key)
    this.#log.info('message.received', { kind: content.kind })
  }

  /** The message has its event, or needs none: it leaves the inbox together with the event's arrival in the file. */
  #settled({ id }: WAMessageKey): void {
    if (id && this.#inbox.has(id)) this.#events.alongside(() => this.#inbox.settle(id))
  }

  /** A quick receipt comes merged into our own message, a slow one as an update: both end here, each step once. */
  #progressed(key: WAMessageKey, status: number | null | undefined, at: number): void {
    const name = STATUS[status ?? -1]
    if (!key.fromMe || !key.id || !name || !status) return
    if ((this.#highest.get<number>(key.id) ?? 0) >= status) return
    this.#highest.set(key.id, status)
    this.#events.emit('MESSAGE_STATUS', { whatsappId: key.id, status: name, at })
  }
}
