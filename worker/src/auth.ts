// Credentials and Signal keys on auth.db, as Baileys wants them: what belongs together is written together or not at all.
import { BufferJSON, initAuthCreds, proto, type AuthenticationCreds, type SignalDataSet, type SignalDataTypeMap, type SignalKeyStore } from 'baileys'
import { openDatabase, Unreadable, type Database } from './database.ts'
import { Ending } from './exits.ts'
import { readMultiFile } from './multifile.ts'
import type { StoreSettings } from './settings.ts'

const CREDS = 'creds'

/** Counters which Baileys raises inside the transaction that stores the pre-keys they count: they must be stored with them. */
const PRE_KEY_COUNTERS = new Set(['nextPreKeyId', 'firstUnuploadedPreKeyId'])

export type Auth = {
  creds: AuthenticationCreds
  keys: SignalKeyStore
  database: Database
  /** Stores the credentials, at once or, for pre-key counters, together with the pre-keys that follow in the same turn. */
  credsChanged(update: Partial<AuthenticationCreds>): void
  saveCreds(): void
  /** Writes what waits for the end of the turn. */
  flush(): void
}

export const encode = (value: unknown): Buffer => Buffer.from(JSON.stringify(value, BufferJSON.replacer))
export const decode = (bytes: Buffer): unknown => JSON.parse(bytes.toString('utf8'), BufferJSON.reviver)

/** An account is linked when the phone has signed us in; a pairing code alone leaves `me` behind and nothing more. */
export const isLinked = (creds: AuthenticationCreds): boolean => !!creds.me?.id && !!creds.account && creds.me.id.includes(':')

/** Takes back what an unfinished pairing code left, so that the next connection registers instead of logging in. */
export function forgetUnfinishedLink(creds: AuthenticationCreds): void {
  if (isLinked(creds)) return
  delete creds.me
  creds.registered = false
  creds.pairingCode = undefined
}

function checkCreds(value: unknown): AuthenticationCreds {
  const creds = value as AuthenticationCreds | null
  const complete =
    creds?.noiseKey?.private?.length === 32 &&
    creds.signedIdentityKey?.private?.length === 32 &&
    !!creds.signedPreKey?.keyPair &&
    typeof creds.registrationId === 'number' &&
    typeof creds.advSecretKey === 'string'
  if (!complete) throw new Unreadable('the credentials are incomplete')
  return creds
}

/** The first contents of a new auth.db: an identity found in Baileys' multi-file layout, or a fresh one. */
function fillFrom(directory: string) {
  return ({ sql, seal }: Pick<Database, 'sql' | 'seal'>): void => {
    const found = readMultiFile(directory)
    const insert = sql.prepare('INSERT INTO keys (name, value) VALUES (?, ?)')
    const put = (name: string, value: unknown): void => void insert.run(name, seal.close(`keys/${name}`, encode(value)))
    put(CREDS, found ? checkCreds(found.creds) : initAuthCreds())
    for (const { type, id, value } of found?.keys ?? []) put(`${type}/${id}`, value)
  }
}

function loadCreds({ sql, seal }: Database): AuthenticationCreds {
  const row = sql.prepare('SELECT value FROM keys WHERE name = ?').get(CREDS)
  if (!row) throw new Unreadable('auth.db holds no credentials')
  try {
    return checkCreds(decode(seal.open(`keys/${CREDS}`, row.value as Uint8Array)))
  } catch (error) {
    if (error instanceof Unreadable) throw error
    throw new Unreadable('the credentials cannot be read: damaged, sealed with another key, or of another session')
  }
}

type Waiting = { values: Map<string, unknown>; settled: { resolve: () => void; reject: (error: unknown) => void }[] }

/** All writes of one turn of the event loop become one transaction: Baileys splits what it sets outside its own transactions by type. */
class KeyStore {
  readonly #database: Database
  readonly #creds: AuthenticationCreds
  readonly #onFenced: (ending: Ending) => void
  #waiting: Waiting = { values: new Map(), settled: [] }
  #credsWait = false
  #scheduled = false

  constructor(database: Database, creds: AuthenticationCreds, onFenced: (ending: Ending) => void) {
    this.#database = database
    this.#creds = creds
    this.#onFenced = onFenced
  }

  get<T extends keyof SignalDataTypeMap>(type: T, ids: string[]): Record<string, SignalDataTypeMap[T]> {
    const { sql, seal } = this.#database
    const select = sql.prepare('SELECT value FROM keys WHERE name = ?')
    const found: Record<string, SignalDataTypeMap[T]> = {}
    for (const id of ids) {
      const name = `${type}/${id}`
      const row = this.#waiting.values.has(name) ? undefined : select.get(name)
      let value = row ? decode(seal.open(`keys/${name}`, row.value as Uint8Array)) : this.#waiting.values.get(name)
      if (value === undefined || value === null) continue
      if (type === 'app-state-sync-key') value = proto.Message.AppStateSyncKeyData.fromObject(value as object)
      found[id] = value as SignalDataTypeMap[T]
    }
    return found
  }

  set(data: SignalDataSet): Promise<void> {
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
      for (const { resolve } of settled) resolve()
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
    const { sql, seal, write } = this.#database
    const put = sql.prepare('INSERT OR REPLACE INTO keys (name, value) VALUES (?, ?)')
    const remove = sql.prepare('DELETE FROM keys WHERE name = ?')
    const entries = this.#credsWait ? [...values, [CREDS, this.#creds] as const] : values
    write(() => {
      for (const [name, value] of entries) {
        if (value === null) remove.run(name)
        else put.run(name, seal.close(`keys/${name}`, encode(value)))
      }
    })
  }
}

/** Opens the account of this directory. Throws Ending or Unreadable; never makes a new identity where one was. */
export async function openAuth(settings: StoreSettings, epoch: number | undefined, onFenced: (ending: Ending) => void): Promise<Auth> {
  const database = await openDatabase(settings, epoch, fillFrom(settings.authDir))
  const creds = loadCreds(database)
  forgetUnfinishedLink(creds)
  const store = new KeyStore(database, creds, onFenced)
  return {
    creds,
    keys: { get: (type, ids) => store.get(type, ids), set: data => store.set(data) },
    database,
    credsChanged: update => (Object.keys(update).every(name => PRE_KEY_COUNTERS.has(name)) ? store.credsLater() : store.credsNow()),
    saveCreds: () => store.credsNow(),
    flush: () => store.flush(),
  }
}
