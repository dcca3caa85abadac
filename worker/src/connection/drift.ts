// Parts of the protocol that this worker does not know, counted by shape: names and numbers, never contents. The
// server adds up the shapes of all sessions, so that a change of WhatsApp is seen before it costs messages.
import { type BinaryNode, getAllBinaryNodeChildren, proto, type WASocket } from 'baileys'
import { fieldNumbers } from '../messages/first-contact-token.ts'
import type { Events } from '../server/events.ts'

const REPORT_AFTER_MS = 30_000
/** Names come from the other side: their number and their length are limited. */
const MOST_SHAPES = 100
const NAME = /^[A-Za-z0-9_.:@-]{1,48}$/

const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/))

const STANZAS = words(`ack call chatstate failure ib iq message notification presence receipt success status
  stream:error stream:features xmlstreamend`)
const NOTIFICATIONS =
  words(`account_sync business companion_reg_refresh contacts crsc_continuation devices disappearing_mode
  encrypt link_code_companion_reg mediaretry mex newsletter pair-device-rotate-qr passkey_prologue_request pay picture privacy_token
  psa registration server server_sync status w:gp2 w:growth`)
const INFO =
  words(`client_expiration dirty downgrade_webclient edge_routing gpia_request offline offline_preview thread_metadata
  tos priority_offline_complete safetynet unified_session`)
/** What the server may ask of us. */
const QUESTIONS = words('md urn:xmpp:ping')
const RECEIPTS = words(
  `hist_sync inactive peer_msg played played-self read read-self retry sender server-error enc_rekey_retry view`,
)
const ACK_ERRORS = words('400 404 406 420 421 429 463 475 479 500 503')
const STREAM_ERRORS = words('401 403 408 411 428 440 500 503 515 516')
const FAILURES = words('400 401 402 403 405 406 409 411 440 500 501 503')
const MESSAGE_ATTRIBUTES =
  words(`addressing_mode category count device_fanout edit expiration from id notify offline participant
  participant_lid participant_pn participant_username peer_recipient_lid peer_recipient_pn peer_recipient_username phash
  push_priority recipient recipient_lid recipient_pn recipient_username sender_lid sender_pn sender_username server_id sts t to type
  verified_level verified_name web`)
const MESSAGE_PARTS =
  words(`biz bot device-identity enc hsm meta multicast participants payment plaintext reporting rmr tctoken
  cstoken unavailable url_number url_text verified_name registration`)

const has = (known: ReadonlySet<string>, name: string | undefined): boolean => name === undefined || known.has(name)

/** The shapes in a stanza that are not known. */
export function unknownIn(stanza: BinaryNode): string[] {
  const { tag, attrs } = stanza
  const children = getAllBinaryNodeChildren(stanza).map(child => child.tag)
  const found: [kind: string, name: string | undefined][] = []
  const look = (kind: string, known: ReadonlySet<string>, name: string | undefined): void => {
    if (!has(known, name)) found.push([kind, name])
  }
  look('stanza', STANZAS, tag)
  if (tag === 'notification') look('notification', NOTIFICATIONS, attrs.type)
  if (tag === 'iq' && (attrs.type === 'get' || attrs.type === 'set')) look('iq', QUESTIONS, attrs.xmlns)
  if (tag === 'ib') for (const child of children) look('ib', INFO, child)
  if (tag === 'receipt') look('receipt', RECEIPTS, attrs.type)
  if (tag === 'ack' && attrs.class === 'message') look('ack.error', ACK_ERRORS, attrs.error)
  if (tag === 'stream:error') look('stream.error', STREAM_ERRORS, attrs.code)
  if (tag === 'failure') look('failure', FAILURES, attrs.reason)
  if (tag === 'message') {
    for (const name of Object.keys(attrs)) look('message.attribute', MESSAGE_ATTRIBUTES, name)
    for (const child of children) look('message.part', MESSAGE_PARTS, child)
  }
  return found.map(([kind, name]) => `${kind}:${NAME.test(name ?? '') ? name : 'unprintable'}`)
}

/** The fields of a decrypted message that the protocol as we have it does not contain, and a protocol message of an unknown type. */
export function unknownInMessage(plaintext: Uint8Array): string[] {
  let message: proto.IMessage
  try {
    message = proto.Message.decode(plaintext)
  } catch {
    return ['message.field:undecodable']
  }
  const known = new Set(fieldNumbers(proto.Message.encode(message).finish()))
  const fields = fieldNumbers(plaintext).filter(number => !known.has(number))
  const shapes = [...new Set(fields)].map(number => `message.field:${number}`)
  const type = (message.deviceSentMessage?.message ?? message).protocolMessage?.type
  if (typeof type === 'number' && !(type in proto.Message.ProtocolMessage.Type)) shapes.push(`protocol:${type}`)
  return shapes
}

type Counted = { count: number; firstAt: number; lastAt: number }

export class Drift {
  readonly #events: Events
  readonly #afterMs: number
  readonly #counted = new Map<string, Counted>()
  #timer: NodeJS.Timeout | undefined

  constructor(events: Events, afterMs = REPORT_AFTER_MS) {
    this.#events = events
    this.#afterMs = afterMs
  }

  attach(sock: WASocket): void {
    sock.ws.on('frame', (stanza: BinaryNode | Uint8Array) => {
      if (!(stanza instanceof Uint8Array)) this.#count(unknownIn(stanza))
    })
  }

  /** Looks at a decrypted message. */
  decrypted(plaintext: Uint8Array): void {
    this.#count(unknownInMessage(plaintext))
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#report()
  }

  #count(shapes: string[]): void {
    const now = Date.now()
    for (const shape of shapes) {
      const known = this.#counted.get(shape)
      if (known) Object.assign(known, { count: known.count + 1, lastAt: now })
      else if (this.#counted.size < MOST_SHAPES) this.#counted.set(shape, { count: 1, firstAt: now, lastAt: now })
    }
    if (shapes.length && this.#timer === undefined) this.#timer = setTimeout(() => this.#report(), this.#afterMs)
  }

  #report(): void {
    this.#timer = undefined
    if (!this.#counted.size) return
    const shapes = [...this.#counted].map(([shape, counted]) => ({ shape, ...counted }))
    this.#counted.clear()
    this.#events.emit('PROTOCOL_DRIFT', { shapes })
  }
}
