// Credentials and Signal keys in auth.db, in the form that Baileys expects.
import { type AuthenticationCreds, initAuthCreds, proto, type SignalDataTypeMap, type SignalKeyStore } from 'baileys'
import type { Ending } from '../exit-codes.ts'
import type { StoreSettings } from '../settings.ts'
import { decode, encode } from './codec.ts'
import { type Database, openDatabase, Unreadable } from './database.ts'
import { CREDS, KeyStore } from './key-store.ts'
import { readMultiFile, removeMultiFile } from './multifile-layout.ts'

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

/** An account is linked when the phone has signed us in; a pairing code alone leaves `me` behind and nothing more. */
export const isLinked = (creds: AuthenticationCreds): boolean =>
  !!creds.me?.id && !!creds.account && creds.me.id.includes(':')

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

/** Keys of app state are protobuf objects in Baileys' hands. */
function typed<T extends keyof SignalDataTypeMap>(
  type: T,
  found: Record<string, unknown>,
): Record<string, SignalDataTypeMap[T]> {
  if (type !== 'app-state-sync-key') return found as Record<string, SignalDataTypeMap[T]>
  const entries = Object.entries(found).map(([id, value]) => [
    id,
    proto.Message.AppStateSyncKeyData.fromObject(value as object),
  ])
  return Object.fromEntries(entries) as Record<string, SignalDataTypeMap[T]>
}

/** Opens the account of this directory. Throws Ending or Unreadable; never makes a new identity where one was. */
export async function openAuth(
  settings: StoreSettings,
  epoch: number | undefined,
  onFenced: (ending: Ending) => void,
  restore?: () => Promise<void>,
): Promise<Auth> {
  const database = await openDatabase(settings, epoch, fillFrom(settings.authDir), restore)
  let creds: AuthenticationCreds
  try {
    creds = loadCreds(database)
  } catch (error) {
    database.close()
    throw error
  }
  if (settings.authKey) removeMultiFile(settings.authDir)
  forgetUnfinishedLink(creds)
  const store = new KeyStore(database, creds, onFenced)
  return {
    creds,
    keys: { get: (type, ids) => typed(type, store.get(type, ids)), set: data => store.set(data) },
    database,
    credsChanged: update =>
      Object.keys(update).every(name => PRE_KEY_COUNTERS.has(name)) ? store.credsLater() : store.credsNow(),
    saveCreds: () => store.credsNow(),
    flush: () => store.flush(),
  }
}
