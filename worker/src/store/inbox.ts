// Decrypted messages that are not reported yet. Baileys confirms a message to WhatsApp before it hands it over, through a
// buffer that a closing connection drops; nobody sends it again, and its key works only once. So each plaintext is stored
// in the transaction that stores the ratchet, and removed in the one that stores its event.
import { createHash } from 'node:crypto'
import {
  type BinaryNode,
  cleanMessage,
  decryptMessageNode,
  type SignalKeyStoreWithTransaction,
  type SocketConfig,
  type WASocket,
} from 'baileys'
import { baileysLogger, describeError, type Log } from '../log.ts'
import { decryptWithOtherSenderKey, decryptWithOtherSession } from '../messages/other-identity.ts'
import type { Auth } from './auth.ts'
import { decode } from './codec.ts'
import type { Database } from './database.ts'

type SignalRepository = ReturnType<SocketConfig['makeSignalRepository']>

/** The type under which the rows lie among the Signal keys: what Baileys commits together is written together. */
const INBOX = 'inbox'

/** How many ids of reported messages are remembered. */
const MOST_REPORTED = 5_000

/** One `<enc>` of a stanza, with the plaintext as its content. */
type Part = { digest: string; attrs: BinaryNode['attrs']; content: Uint8Array }
type Entry = { attrs: BinaryNode['attrs']; parts: Part[] }

const digestOf = (ciphertext: Uint8Array): string => createHash('sha256').update(ciphertext).digest('base64')

export class Inbox {
  readonly #database: Database
  readonly #log: Log
  /** Called with each ciphertext that cannot be decrypted, before WhatsApp is answered. */
  onFailure: (stanza: BinaryNode, enc: BinaryNode) => void = () => undefined
  /** Called with each decrypted message. */
  onDecrypted: (plaintext: Uint8Array) => void = () => undefined
  /** The stanza of each ciphertext: the repository is given nothing but the bytes. */
  readonly #stanzas = new WeakMap<Uint8Array, { stanza: BinaryNode; enc: BinaryNode }>()

  constructor(database: Database, log: Log) {
    this.#database = database
    this.#log = log
  }

  /** Notes each incoming stanza before Baileys decrypts it, and replays what an earlier connection left when this one opens. */
  attach(sock: WASocket, auth: Pick<Auth, 'creds'>): void {
    const left = this.#ids()
    sock.ws.prependListener('CB:message', (stanza: BinaryNode) => {
      for (const enc of Array.isArray(stanza.content) ? stanza.content : []) {
        if (enc.tag === 'enc' && enc.content instanceof Uint8Array) this.#stanzas.set(enc.content, { stanza, enc })
      }
    })
    sock.ev.on('connection.update', ({ connection }) => {
      if (connection === 'open' && left.length) void this.#replay(left.splice(0), sock, auth)
    })
  }

  /** Makes decryption store what it yields, and repeat it for a stanza that WhatsApp delivers again. */
  wrap(repository: SignalRepository, keys: SignalKeyStoreWithTransaction): SignalRepository {
    const { decryptMessage, decryptGroupMessage } = repository
    const stored = (ciphertext: Uint8Array, lock: string, decrypt: () => Promise<Uint8Array>): Promise<Uint8Array> =>
      keys.transaction(async () => {
        const plaintext = await decrypt().catch(error => {
          const known = this.#plaintextOf(ciphertext)
          if (known) return known
          const found = this.#stanzas.get(ciphertext)
          if (found) this.onFailure(found.stanza, found.enc)
          throw error
        })
        await this.#keep(keys, ciphertext, plaintext)
        this.onDecrypted(plaintext)
        return plaintext
      }, lock)
    return Object.assign(repository, {
      decryptMessage: (parameters: Parameters<typeof decryptMessage>[0]) =>
        stored(parameters.ciphertext, parameters.jid, () =>
          decryptMessage(parameters).catch(error =>
            decryptWithOtherSession(repository, keys, parameters.jid, error, () => decryptMessage(parameters)),
          ),
        ),
      decryptGroupMessage: (parameters: Parameters<typeof decryptGroupMessage>[0]) =>
        stored(parameters.msg, parameters.group, () =>
          decryptGroupMessage(parameters).catch(error => {
            const author = {
              group: parameters.group,
              jid: parameters.authorJid,
              otherName: this.#otherName(parameters.msg),
            }
            return decryptWithOtherSenderKey(repository, keys, author, error, () => decryptGroupMessage(parameters))
          }),
        ),
    })
  }

  /** The author's other name, which WhatsApp writes beside the one that a group uses. */
  #otherName(ciphertext: Uint8Array): string | undefined {
    const attrs = this.#stanzas.get(ciphertext)?.stanza.attrs
    return attrs?.participant_pn ?? attrs?.participant_lid
  }

  /** Removes the message and remembers its id; called within the transaction that stores its event. */
  settle(id: string): void {
    const { prepare } = this.#database
    prepare('DELETE FROM keys WHERE name = ?').run(`${INBOX}/${id}`)
    prepare('INSERT OR IGNORE INTO reported (id) VALUES (?)').run(id)
    prepare('DELETE FROM reported WHERE rowid <= (SELECT max(rowid) FROM reported) - ?').run(MOST_REPORTED)
  }

  /**
   * Whether the message had its event, maybe in an earlier life: if our receipt was lost, WhatsApp delivers it again, and where
   * that cannot be decrypted twice, its author's phone is asked for it and encrypts it anew.
   */
  isSettled(id: string): boolean {
    return this.#database.prepare('SELECT 1 FROM reported WHERE id = ?').get(id) !== undefined
  }

  has(id: string): boolean {
    return this.#database.prepare('SELECT 1 FROM keys WHERE name = ?').get(`${INBOX}/${id}`) !== undefined
  }

  #ids(): string[] {
    const rows = this.#database.prepare(`SELECT name FROM keys WHERE name >= '${INBOX}/' AND name < '${INBOX}0'`).all()
    return rows.map(row => String(row.name).slice(INBOX.length + 1))
  }

  #entry(id: string): Entry | undefined {
    const name = `${INBOX}/${id}`
    const row = this.#database.prepare('SELECT value FROM keys WHERE name = ?').get(name)
    return row && (decode(this.#database.seal.open(`keys/${name}`, row.value as Uint8Array)) as Entry)
  }

  #plaintextOf(ciphertext: Uint8Array): Uint8Array | undefined {
    const id = this.#stanzas.get(ciphertext)?.stanza.attrs.id
    const digest = digestOf(ciphertext)
    return id === undefined ? undefined : this.#entry(id)?.parts.find(part => part.digest === digest)?.content
  }

  /** A stanza may hold two ciphertexts, a sender key and what it encrypts: they make one entry. */
  async #keep(keys: SignalKeyStoreWithTransaction, ciphertext: Uint8Array, plaintext: Uint8Array): Promise<void> {
    const found = this.#stanzas.get(ciphertext)
    const id = found?.stanza.attrs.id
    if (!found || id === undefined) return
    const digest = digestOf(ciphertext)
    const others = this.#entry(id)?.parts.filter(part => part.digest !== digest) ?? []
    const entry: Entry = {
      attrs: found.stanza.attrs,
      parts: [...others, { digest, attrs: found.enc.attrs, content: plaintext }],
    }
    await keys.set({ [INBOX]: { [id]: entry } } as Parameters<typeof keys.set>[0])
  }

  /** Hands stored messages to Baileys again, as if they had just been decrypted. */
  async #replay(ids: string[], sock: WASocket, { creds }: Pick<Auth, 'creds'>): Promise<void> {
    const me = creds.me
    const repository: SignalRepository = Object.assign(Object.create(sock.signalRepository) as SignalRepository, {
      decryptMessage: async ({ ciphertext }: { ciphertext: Uint8Array }) => ciphertext,
      decryptGroupMessage: async ({ msg }: { msg: Uint8Array }) => msg,
      processSenderKeyDistributionMessage: async () => undefined, // the chain may have moved on since
    })
    for (const id of ids) {
      try {
        const entry = this.#entry(id)
        if (!me || !entry) continue
        const content = entry.parts.map(part => ({ tag: 'enc', attrs: part.attrs, content: part.content }))
        const stanza: BinaryNode = { tag: 'message', attrs: entry.attrs, content }
        const { fullMessage, decrypt } = decryptMessageNode(
          stanza,
          me.id,
          me.lid ?? '',
          repository,
          baileysLogger(this.#log),
        )
        await decrypt()
        cleanMessage(fullMessage, me.id, me.lid ?? '')
        await sock.upsertMessage(fullMessage, 'append')
        this.#log.info('message.replayed', {})
      } catch (error) {
        this.#log.error('message.not_replayed', { error: describeError(error) })
      }
    }
  }
}
