// Stored messages: sent ones for retry receipts, received files and polls, and which ids WhatsApp has acknowledged.
import { getContentType, isJidGroup, proto, type WAMessage } from 'baileys'
import type { Database } from './database.ts'

/** Which rows, and how many: those with names from the one up to the other. Ids of ours are hexadecimal digits in upper case. */
type Names = { from: string; to: string; most: number }
const SENT: Names = { from: '', to: 'a', most: 1_000 }
/** What people send cannot push out what we sent. */
const RECEIVED: Names = { from: 'received/', to: 'received0', most: 5_000 }

type Stored = Pick<WAMessage, 'key' | 'message'>

/** How long a message is sent again to who could not decrypt it: a phone may have been off for a day. */
const CHAT_RETRY_MS = 24 * 60 * 60_000
const GROUP_RETRY_MS = 15 * 60_000

/** A message with other words: its text, or the caption of its file. */
function withText(message: proto.IMessage, text: string): proto.IMessage {
  const type = getContentType(message)
  if (type === undefined || type === 'conversation') return { ...message, conversation: text }
  const field = type === 'extendedTextMessage' ? 'text' : 'caption'
  return { ...message, [type]: { ...(message[type] as object), [field]: text } }
}

export class Messages {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** Stores a message that we send. */
  remember(message: Stored): void {
    const { id } = message.key
    if (id) this.#put(id, message, SENT, 'ON CONFLICT (id) DO UPDATE SET value = excluded.value')
  }

  /**
   * Stores a message that somebody sent. Its author chooses the id, so it has a name that no message of ours has: it would be
   * sent in place of ours to whoever asks for that again. The first one with an id stays.
   */
  receive(message: Stored): void {
    const { id } = message.key
    if (id) this.#put(RECEIVED.from + id, message, RECEIVED, 'ON CONFLICT (id) DO NOTHING')
  }

  /** A message that we sent has other words now, and whoever could not decrypt it gets it with these. */
  amend(id: string, text: string): void {
    const known = this.find(id)
    if (known?.message) this.remember({ key: known.key, message: withText(known.message, text) })
  }

  /** A message that we sent is deleted: nobody gets it any more. */
  revoke(id: string): void {
    const { prepare, seal, write } = this.#database
    const empty = seal.close(`messages/${id}`, new Uint8Array())
    write(() => prepare('UPDATE messages SET value = ? WHERE id = ?').run(empty, id))
  }

  /** Stores where the file of a received message is now. */
  replaceReceived(message: Stored): void {
    const { id } = message.key
    if (id) this.#put(RECEIVED.from + id, message, RECEIVED, 'ON CONFLICT (id) DO UPDATE SET value = excluded.value')
  }

  #put(name: string, { key, message }: Stored, among: Names, onConflict: string): void {
    if (!message) return
    const { prepare, seal, write } = this.#database
    const bytes = proto.WebMessageInfo.encode(proto.WebMessageInfo.fromObject({ key, message })).finish()
    write(() => {
      prepare(`INSERT INTO messages (id, value, stored_at) VALUES (?, ?, ?) ${onConflict}`).run(
        name,
        seal.close(`messages/${name}`, bytes),
        Date.now(),
      )
      prepare(
        'DELETE FROM messages WHERE id IN (SELECT id FROM messages WHERE id >= ? AND id < ? ORDER BY stored_at DESC LIMIT -1 OFFSET ?)',
      ).run(among.from, among.to, among.most)
    })
  }

  find(id: string): WAMessage | undefined {
    const { prepare, seal } = this.#database
    const row = prepare('SELECT value FROM messages WHERE id = ?').get(id)
    if (!row) return undefined
    const bytes = seal.open(`messages/${id}`, row.value as Uint8Array)
    return bytes.length ? (proto.WebMessageInfo.decode(bytes) as WAMessage) : undefined
  }

  findReceived(id: string): WAMessage | undefined {
    return this.find(RECEIVED.from + id)
  }

  /** A message that somebody asks for again. An old one is not given: it would appear as new, in a group to everybody. */
  findForRetry({ id, remoteJid }: Pick<WAMessage['key'], 'id' | 'remoteJid'>): WAMessage | undefined {
    const row = this.#database.prepare('SELECT stored_at AS at FROM messages WHERE id = ?').get(id ?? '')
    const limitMs = isJidGroup(remoteJid ?? '') ? GROUP_RETRY_MS : CHAT_RETRY_MS
    return !id || !row || Date.now() - Number(row.at) > limitMs ? undefined : this.find(id)
  }

  /** Remembers that WhatsApp's server has the message, so that a restart before the server heard of it need not send again. */
  acknowledge(id: string, at: number): void {
    const { prepare, seal, write } = this.#database
    const empty = seal.close(`messages/${id}`, new Uint8Array())
    write(() =>
      prepare(
        'INSERT INTO messages (id, value, acknowledged_at, stored_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET acknowledged_at = excluded.acknowledged_at',
      ).run(id, empty, at, Date.now()),
    )
  }

  acknowledgedAt(id: string): number | undefined {
    const row = this.#database.prepare('SELECT acknowledged_at AS at FROM messages WHERE id = ?').get(id)
    return row?.at === null || row?.at === undefined ? undefined : Number(row.at)
  }
}
