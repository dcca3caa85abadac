// Signal keys and credentials in auth.db; what belongs together is written in one transaction.

import { Ending } from '../exit-codes.ts'
import { decode, encode } from './codec.ts'
import type { Database } from './database.ts'

/** The name of the credentials among the keys. */
export const CREDS = 'creds'

type Waiting = {
  values: Map<string, unknown>
  settled: { resolve: (wait: Promise<void> | undefined) => void; reject: (error: unknown) => void }[]
}

/** All writes of one turn of the event loop become one transaction: Baileys splits what it sets outside its own transactions by type. */
export class KeyStore {
  readonly #database: Database
  readonly #creds: object
  readonly #onFenced: (ending: Ending) => void
  #waiting: Waiting = { values: new Map(), settled: [] }
  #credsWait = false
  #scheduled = false

  constructor(database: Database, creds: object, onFenced: (ending: Ending) => void) {
    this.#database = database
    this.#creds = creds
    this.#onFenced = onFenced
  }

  get(type: string, ids: string[]): Record<string, unknown> {
    const { prepare, seal } = this.#database
    const select = prepare('SELECT value FROM keys WHERE name = ?')
    const found: Record<string, unknown> = {}
    for (const id of ids) {
      const name = `${type}/${id}`
      const row = this.#waiting.values.has(name) ? undefined : select.get(name)
      const value = row ? decode(seal.open(`keys/${name}`, row.value as Uint8Array)) : this.#waiting.values.get(name)
      if (value !== undefined && value !== null) found[id] = value
    }
    return found
  }

  set(data: Record<string, Record<string, unknown> | undefined>): Promise<void> {
    for (const [type, entries] of Object.entries(data)) {
      for (const [id, value] of Object.entries(entries ?? {})) this.#waiting.values.set(`${type}/${id}`, value ?? null)
    }
    this.#schedule()
    return new Promise((resolve, reject) => this.#waiting.settled.push({ resolve, reject }))
  }

  credsLater(): void {
    this.#credsWait = true
    this.#schedule()
  }

  credsNow(): void {
    this.#credsWait = true
    this.flush()
  }

  flush(): void {
    const { values, settled } = this.#waiting
    if (!this.#credsWait && settled.length === 0) return
    this.#waiting = { values: new Map(), settled: [] }
    try {
      this.#commit(values)
      this.#credsWait = false
      // Baileys confirms a message to WhatsApp when this is done.
      for (const { resolve } of settled) resolve(this.#database.durable())
    } catch (error) {
      for (const { reject } of settled) reject(error)
      if (error instanceof Ending) this.#onFenced(error)
      else if (settled.length === 0) throw error
    }
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.flush()
    })
  }

  #commit(values: Map<string, unknown>): void {
    const { prepare, seal, write } = this.#database
    const put = prepare('INSERT OR REPLACE INTO keys (name, value) VALUES (?, ?)')
    const remove = prepare('DELETE FROM keys WHERE name = ?')
    const entries = this.#credsWait ? [...values, [CREDS, this.#creds] as const] : values
    write(() => {
      for (const [name, value] of entries) {
        if (value === null) remove.run(name)
        else put.run(name, seal.close(`keys/${name}`, encode(value)))
      }
    })
  }
}
