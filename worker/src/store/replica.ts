// The server's copy of auth.db (CREDENTIALS=server): every committed change is shipped, sealed and numbered, and whoever tells
// the world of a commit waits until the server has it. docs/decisions/0020-credentials-follow-the-worker.md has the reasons.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Session } from 'node:sqlite'
import { backoffMs, sleep, within } from '../connection/timing.ts'
import { Ending } from '../exit-codes.ts'
import type { Log } from '../log.ts'
import type { CredentialService, Delivery } from '../server/credential-service.ts'
import { copyDatabase, type Database } from './database.ts'

/** A change for which nobody waits goes with the next one, or after this time. */
const UNHURRIED_MS = 250
const RETRY_MIN_MS = 100
const RETRY_MAX_MS = 5_000
/** Changes are kept up to the size of the copy before them, and at least so much. */
const LEAST_CHANGES_BYTES = 256 << 10

/** Names under which copies and changes are sealed: none can be taken for another, or for another epoch's. */
export const copyName = (epoch: number, sequence: number): string => `copy/${epoch}/${sequence}`
export const changeName = (epoch: number, sequence: number): string => `change/${epoch}/${sequence}`

type Waiter = { upTo: number; resolve: () => void; reject: (error: unknown) => void }

export class Replica {
  readonly #database: Database
  readonly #directory: string
  readonly #epoch: number
  readonly #service: CredentialService
  readonly #log: Log
  readonly #onFenced: (ending: Ending) => void
  readonly #stopped = new AbortController()
  /** SQLite's own record of the rows that changed since the last change set. */
  #changes: Session
  /** Commits so far, and how many of them the server has. The first is what the file held at the start. */
  #committed = 1
  #acknowledged = 0
  #sequence = 0
  #wantsCopy = true
  #copyBytes = 0
  #changeBytes = 0
  #waiters: Waiter[] = []
  #timer: NodeJS.Timeout | undefined
  #shipping: Promise<void> | undefined
  #failure: unknown

  constructor(
    database: Database,
    directory: string,
    epoch: number,
    service: CredentialService,
    log: Log,
    onFenced: (ending: Ending) => void,
  ) {
    this.#database = database
    this.#directory = directory
    this.#epoch = epoch
    this.#service = service
    this.#log = log
    this.#onFenced = onFenced
    this.#changes = database.sql.createSession()
    database.onCommit = () => this.#committedOne()
    database.durable = () => this.durable()
  }

  /** Resolves when the server has everything that is committed now; rejects when it never will, because this worker ends. */
  durable(): Promise<void> | undefined {
    if (this.#acknowledged >= this.#committed) return undefined
    if (this.#failure !== undefined) return Promise.reject(this.#failure as Error)
    this.#ship()
    return new Promise((resolve, reject) => this.#waiters.push({ upTo: this.#committed, resolve, reject }))
  }

  /** Ships what is left, but for no longer than `ms`; then nothing more. */
  async close(ms: number): Promise<void> {
    this.#committed++ // what was written outside of a transaction
    if (ms > 0) await within(ms, this.durable() ?? Promise.resolve(), () => undefined).catch(() => undefined)
    this.#stopped.abort()
    clearTimeout(this.#timer)
    await this.#shipping
    this.#changes.close()
  }

  #committedOne(): void {
    this.#committed++
    this.#timer ??= setTimeout(() => this.#ship(), UNHURRIED_MS)
  }

  #ship(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#shipping ??= this.#shipAll()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => (this.#shipping = undefined))
  }

  #fail(error: unknown): void {
    this.#failure = error
    for (const { reject } of this.#waiters.splice(0)) reject(error)
    this.#onFenced(error instanceof Ending ? error : new Ending('CRASHED', 'the changes cannot be shipped'))
  }

  async #shipAll(): Promise<void> {
    while (this.#acknowledged < this.#committed && !this.#stopped.signal.aborted) {
      const upTo = this.#committed
      const isStored = this.#wantsCopy ? await this.#shipCopy() : await this.#shipChanges()
      if (isStored) this.#acknowledge(upTo)
    }
  }

  #acknowledge(upTo: number): void {
    this.#acknowledged = upTo
    const done = this.#waiters.filter(waiter => waiter.upTo <= upTo)
    this.#waiters = this.#waiters.filter(waiter => waiter.upTo > upTo)
    for (const { resolve } of done) resolve()
  }

  /** A whole copy has a number of its own: one that was under way for long must not replace a later state. */
  async #shipCopy(): Promise<boolean> {
    const { database, sequence } = { database: this.#database, sequence: ++this.#sequence }
    this.#takeChanges() // the copy has them
    const path = join(this.#directory, copyDatabase(database, this.#directory, 'server'))
    const content = readFileSync(path)
    rmSync(path, { force: true })
    const sealed = database.seal.close(copyName(this.#epoch, sequence), content)
    const delivery = await this.#insist(() => this.#service.putCopy(sequence, sealed, this.#stopped.signal))
    if (delivery !== 'stored') {
      if (delivery === 'refused') this.#log.error('credentials.copy_refused', { bytes: sealed.length })
      await sleep(delivery === 'refused' ? RETRY_MAX_MS : 0, this.#stopped.signal)
      return false
    }
    this.#wantsCopy = false
    this.#copyBytes = sealed.length
    this.#changeBytes = 0
    this.#log.info('credentials.copied', { sequence, bytes: sealed.length })
    return true
  }

  async #shipChanges(): Promise<boolean> {
    const changes = this.#takeChanges()
    if (changes.length === 0) return true
    const sequence = ++this.#sequence
    const sealed = this.#database.seal.close(changeName(this.#epoch, sequence), changes)
    const delivery = await this.#insist(() => this.#service.putChange(sequence, sealed, this.#stopped.signal))
    this.#changeBytes += sealed.length
    // A server that has lost what came before gets everything anew.
    this.#wantsCopy = delivery === 'refused' || this.#changeBytes > Math.max(this.#copyBytes, LEAST_CHANGES_BYTES)
    return delivery === 'stored'
  }

  #takeChanges(): Uint8Array {
    const changes = this.#changes.patchset()
    this.#changes.close()
    this.#changes = this.#database.sql.createSession()
    return changes
  }

  /** Repeats while the server is away: the server knows a repeated number. */
  async #insist(deliver: () => Promise<Delivery>): Promise<Delivery> {
    for (let attempt = 0; !this.#stopped.signal.aborted; attempt++) {
      const delivery = await deliver()
      if (delivery !== 'unreachable') return delivery
      if (attempt === 0) this.#log.warn('credentials.not_shipped', { sequence: this.#sequence })
      await sleep(backoffMs(attempt, RETRY_MIN_MS, RETRY_MAX_MS), this.#stopped.signal)
    }
    return 'unreachable'
  }
}
