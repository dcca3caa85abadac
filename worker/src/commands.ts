// Commands of the server other than sending. They arrive with the claim, because the worker runs no server.
import { downloadMediaMessage, extractMessageContent, getContentType, type SocketConfig, type WAMessage } from 'baileys'
import { copyDatabase, type Database } from './database.ts'
import type { Device } from './device.ts'
import { baileysLogger, describeError, type Log } from './log.ts'
import type { Messages } from './message-store.ts'
import type { Command, Outbox } from './outbox.ts'
import type { Assertion } from './passkey.ts'

/** Whatever the code says, the server shows it: it is one of these. */
class CommandError extends Error {}

const CODES = /^[A-Z0-9_]{3,60}$/

function mimetypeOf(message: WAMessage): string {
  const content = extractMessageContent(message.message)
  const type = content ? getContentType(content) : undefined
  return (type && (content?.[type] as { mimetype?: string } | undefined)?.mimetype) || 'application/octet-stream'
}

/** The worker's store, and what writes to it everything that waits. */
export type Store = { database: Database; directory: string; flush: () => void }

export class Commands {
  readonly #device: Device
  readonly #outbox: Outbox
  readonly #messages: Messages
  readonly #store: Store
  readonly #fetchOptions: SocketConfig['options']
  readonly #log: Log
  readonly #never = new AbortController().signal

  constructor(
    device: Device,
    outbox: Outbox,
    messages: Messages,
    store: Store,
    fetchOptions: SocketConfig['options'],
    log: Log,
  ) {
    this.#device = device
    this.#outbox = outbox
    this.#messages = messages
    this.#store = store
    this.#fetchOptions = fetchOptions
    this.#log = log
  }

  async run(command: Command): Promise<void> {
    this.#log.info('command.received', { kind: command.kind })
    try {
      await this.#obey(command)
    } catch (error) {
      const code = error instanceof Error && CODES.test(error.message) ? error.message : 'FAILED'
      this.#log.warn('command.refused', { kind: command.kind, code, error: describeError(error) })
      await this.#outbox.result(command.id, { ok: false, code }, this.#never)
    }
  }

  #obey(command: Command): Promise<unknown> {
    if (command.kind === 'logout') return this.#logout(command)
    if (command.kind === 'pairing_code') return this.#pairingCode(command)
    if (command.kind === 'fetch_media') return this.#fetchMedia(command)
    if (command.kind === 'passkey') return this.#passkey(command)
    if (command.kind === 'copy_store') return this.#copyStore(command)
    throw new CommandError('UNKNOWN_COMMAND')
  }

  /** The answer goes first: logging out ends the worker. */
  async #logout({ id }: Command): Promise<void> {
    const sock = this.#device.openSocket
    if (!sock) throw new CommandError('NOT_CONNECTED')
    await this.#outbox.result(id, { ok: true }, this.#never)
    await sock.logout('LOGOUT_COMMAND')
  }

  async #pairingCode({ id, phone }: Command): Promise<void> {
    if (!phone || !/^\d{8,15}$/.test(phone)) throw new CommandError('INVALID_PHONE')
    const code = await this.#device.requestPairingCode(phone)
    await this.#outbox.result(id, { ok: true, ...code }, this.#never)
  }

  /** A copy for a backup, beside the file. What waits for the end of the turn is written first: no ratchet may be older than its last message. */
  async #copyStore({ id }: Command): Promise<void> {
    this.#store.flush()
    const file = copyDatabase(this.#store.database, this.#store.directory, id)
    await this.#outbox.result(id, { ok: true, file }, this.#never)
  }

  /** The answer of the person whom WhatsApp asked for the passkey; without one, that the codes are the same. */
  async #passkey({ id, assertion }: Command): Promise<void> {
    await this.#device.answerPasskey(assertion ? (JSON.parse(assertion) as Assertion) : 'confirmed')
    await this.#outbox.result(id, { ok: true }, this.#never)
  }

  async #fetchMedia({ id, whatsappId }: Command): Promise<void> {
    const sock = this.#device.openSocket
    if (!sock) throw new CommandError('NOT_CONNECTED')
    const message = this.#messages.find(whatsappId ?? '')
    if (!message) throw new CommandError('UNKNOWN_MESSAGE')
    const options = { options: this.#fetchOptions }
    const bytes = await downloadMediaMessage(message, 'buffer', options, {
      logger: baileysLogger(this.#log),
      reuploadRequest: sock.updateMediaMessage,
    })
    await this.#outbox.bytesResult(id, bytes, mimetypeOf(message), this.#never)
  }
}
