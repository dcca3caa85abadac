// Messages that arrived and cannot be read: reported once, after a while in which their author may send them again. The note of
// one is in the file before WhatsApp hears that we have it, so that no end of the process makes it vanish unseen.
import {
  type BinaryNode,
  getBinaryNodeChild,
  isJidBroadcast,
  isJidGroup,
  isJidNewsletter,
  isJidStatusBroadcast,
  isLidUser,
  isPnUser,
  jidDecode,
  jidNormalizedUser,
  type WAMessageKey,
  type WASocket,
} from 'baileys'
import { millisOf } from '../connection/timing.ts'
import { describeError, type Log } from '../log.ts'
import type { Events } from '../server/events.ts'
import type { Auth } from '../store/auth.ts'
import { decode, encode } from '../store/codec.ts'
import type { Database } from '../store/database.ts'

/** `view_once` is to be opened on the phone; `unavailable` came without content, and the phone did not give it either. */
type Reason = 'decrypt' | 'view_once' | 'unavailable'

type Note = {
  whatsappId: string
  from: string
  reason: Reason
  at: number
  phone?: string
  lid?: string
  group?: string
  pushName?: string
}

const MOST_NOTES = 1_000
const VIEW_ONCE = new Set(['view_once', 'view_once_unavailable_fanout'])

/** Ids are unique only among the messages of one author. */
const nameOf = (author: string, id: string): string => `${jidNormalizedUser(author)}/${id}`

/** What the envelope says about a message; undefined for anything that a person did not write to us. */
export function describe({ attrs }: BinaryNode, reason: Reason, own: (string | undefined)[]): Note | undefined {
  const { id, from = '', participant, recipient, category, t, notify } = attrs
  const group = isJidGroup(from) ? from : undefined
  const author = group || isJidBroadcast(from) ? (participant ?? '') : from
  if (!id || recipient || category === 'peer' || isJidStatusBroadcast(from) || isJidNewsletter(from)) return undefined
  if (own.some(name => name && jidNormalizedUser(name) === jidNormalizedUser(author))) return undefined
  const names = [author, attrs.sender_pn, attrs.sender_lid, attrs.participant_pn, attrs.participant_lid]
  const phone = names.find(name => isPnUser(name))
  const lid = names.find(name => isLidUser(name))
  return {
    whatsappId: id,
    from: jidNormalizedUser(author),
    reason,
    at: millisOf(t),
    ...(phone ? { phone: jidDecode(phone)?.user ?? '' } : {}),
    ...(lid ? { lid: jidNormalizedUser(lid) } : {}),
    ...(group ? { group } : {}),
    ...(notify ? { pushName: notify } : {}),
  }
}

/** Why a message without anything to decrypt is not there; undefined if there is something. */
function absence(stanza: BinaryNode): Reason | undefined {
  if (getBinaryNodeChild(stanza, 'enc') || getBinaryNodeChild(stanza, 'plaintext')) return undefined
  return VIEW_ONCE.has(getBinaryNodeChild(stanza, 'unavailable')?.attrs.type ?? '') ? 'view_once' : 'unavailable'
}

export class Undecryptable {
  readonly #database: Database
  readonly #auth: Pick<Auth, 'creds'>
  readonly #events: Events
  readonly #log: Log
  readonly #afterMs: number
  readonly #isReported: (id: string) => boolean
  #timer: NodeJS.Timeout | undefined

  constructor(
    auth: Pick<Auth, 'creds' | 'database'>,
    events: Events,
    log: Log,
    afterMs: number,
    isReported: (id: string) => boolean,
  ) {
    this.#database = auth.database
    this.#auth = auth
    this.#events = events
    this.#log = log
    this.#afterMs = afterMs
    this.#isReported = isReported
    this.#schedule()
  }

  attach(sock: WASocket): void {
    sock.ws.prependListener('CB:message', (stanza: BinaryNode) => {
      const reason = absence(stanza)
      if (reason) this.#note(stanza, reason)
    })
  }

  /** A part of a message could not be decrypted. What is meant to fail unseen, a reaction for instance, is not noted. */
  failed(stanza: BinaryNode, enc: BinaryNode): void {
    if (enc.attrs['decrypt-fail'] !== 'hide') this.#note(stanza, 'decrypt')
  }

  /** The message can be read after all; to be called with its event. */
  resolved(key: WAMessageKey): void {
    const { id, participant, participantAlt, remoteJid, remoteJidAlt } = key
    const names = [participant, participantAlt, remoteJid, remoteJidAlt].filter(name => typeof name === 'string')
    const remove = this.#database.prepare('DELETE FROM undecryptable WHERE name = ?')
    if (!id || !this.#has(id)) return
    this.#events.alongside(() => {
      for (const name of names) remove.run(nameOf(name, id))
    })
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #has(id: string): boolean {
    const found = this.#database.prepare('SELECT 1 FROM undecryptable WHERE id = ?').get(id)
    return found !== undefined
  }

  #note(stanza: BinaryNode, reason: Reason): void {
    const { me } = this.#auth.creds
    const note = describe(stanza, reason, [me?.id, me?.lid])
    if (!note || this.#isReported(note.whatsappId)) return
    const { prepare, seal, write } = this.#database
    const name = nameOf(note.from, note.whatsappId)
    try {
      write(() => {
        prepare('INSERT OR IGNORE INTO undecryptable (name, id, value, due_at) VALUES (?, ?, ?, ?)').run(
          name,
          note.whatsappId,
          seal.close(`undecryptable/${name}`, encode(note)),
          Date.now() + (reason === 'view_once' ? 0 : this.#afterMs),
        )
        prepare('DELETE FROM undecryptable WHERE rowid <= (SELECT max(rowid) FROM undecryptable) - ?').run(MOST_NOTES)
      })
    } catch (error) {
      // Thrown here it would count as one more failure to decrypt; a newer epoch or a full disk ends us elsewhere.
      this.#log.error('message.not_noted', { error: describeError(error) })
    }
    this.#schedule()
  }

  #schedule(): void {
    clearTimeout(this.#timer)
    const next = this.#database.prepare('SELECT min(due_at) AS at FROM undecryptable WHERE told = 0').get()?.at
    if (typeof next !== 'number') return
    this.#timer = setTimeout(() => this.#tell(), Math.max(0, next - Date.now()))
  }

  /** Reports what is due, each in the transaction that remembers the report. */
  #tell(): void {
    const { prepare, seal } = this.#database
    const rows = prepare('SELECT name, value FROM undecryptable WHERE told = 0 AND due_at <= ?').all(Date.now())
    for (const row of rows) {
      const name = String(row.name)
      const note = decode(seal.open(`undecryptable/${name}`, row.value as Uint8Array)) as Note
      if (this.#isReported(note.whatsappId)) {
        prepare('DELETE FROM undecryptable WHERE name = ?').run(name)
        continue
      }
      this.#events.emit('MESSAGE_UNDECRYPTABLE', note)
      this.#events.alongside(() => prepare('UPDATE undecryptable SET told = 1 WHERE name = ?').run(name))
      this.#log.warn('message.undecryptable', { reason: note.reason })
    }
    this.#events.flush()
    this.#schedule()
  }
}
