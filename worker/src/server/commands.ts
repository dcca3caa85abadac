// Commands of the server other than sending. They arrive with the claim, because the worker runs no server.
import { rm } from 'node:fs/promises'
import type { WASocket } from 'baileys'
import type { Device } from '../connection/device.ts'
import type { Assertion } from '../connection/passkey.ts'
import { describeError, type Log } from '../log.ts'
import type { MediaDownload } from '../messages/media-download.ts'
import { copyDatabase, type Database } from '../store/database.ts'
import type { Command, Outbox } from './outbox.ts'

/** Answers the commands that it knows; undefined for another. */
export type Actor = { run: (command: Command, sock: WASocket) => Promise<object | undefined> }

/** Whatever the code says, the server shows it: it is one of these. */
class CommandError extends Error {}

const CODES = /^[A-Z0-9_]{3,60}$/

/** How long the server is offered a file: then nobody waits for it any more. */
const OFFER_MS = 180_000
/** A file is no longer than this where the server gives no limit. */
const MOST_BYTES = 100 << 20

/** The worker's store, and what writes to it everything that waits. */
export type Store = { database: Database; directory: string; flush: () => void }

export class Commands {
  readonly #device: Device
  readonly #outbox: Outbox
  readonly #media: MediaDownload
  readonly #actors: Actor[]
  readonly #store: Store
  readonly #epoch: number
  readonly #log: Log
  readonly #never = new AbortController().signal

  constructor(
    device: Device,
    outbox: Outbox,
    media: MediaDownload,
    actors: Actor[],
    store: Store,
    epoch: number,
    log: Log,
  ) {
    this.#device = device
    this.#outbox = outbox
    this.#media = media
    this.#actors = actors
    this.#store = store
    this.#epoch = epoch
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
    if (command.kind === 'leave') return this.#leave(command)
    return this.#act(command)
  }

  async #act(command: Command): Promise<void> {
    const sock = this.#device.openSocket
    if (!sock) throw new CommandError('NOT_CONNECTED')
    for (const actor of this.#actors) {
      const answer = await actor.run(command, sock)
      if (!answer) continue
      await this.#outbox.result(command.id, { ok: true, ...answer }, this.#never)
      return
    }
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

  /**
   * Ends the worker as SIGTERM does, without the engine's delay. It was taken between two messages, so none is in hand. The
   * answer goes first: the session is away from here on. One that was meant for an earlier worker waited too long.
   */
  async #leave({ id, epoch }: Command): Promise<void> {
    if (epoch !== String(this.#epoch)) throw new CommandError('OTHER_EPOCH')
    await this.#outbox.result(id, { ok: true }, this.#never)
    this.#device.leave()
  }

  /** The answer of the person whom WhatsApp asked for the passkey; without one, that the codes are the same. */
  async #passkey({ id, assertion }: Command): Promise<void> {
    await this.#device.answerPasskey(assertion ? (JSON.parse(assertion) as Assertion) : 'confirmed')
    await this.#outbox.result(id, { ok: true }, this.#never)
  }

  async #fetchMedia({ id, whatsappId, maxBytes }: Command): Promise<void> {
    const sock = this.#device.openSocket
    if (!sock) throw new CommandError('NOT_CONNECTED')
    const file = await this.#media.run(whatsappId ?? '', sock, Number(maxBytes) || MOST_BYTES)
    try {
      await this.#outbox.fileResult(id, file, AbortSignal.timeout(OFFER_MS))
    } finally {
      await rm(file.path, { force: true })
    }
  }
}
