// Writes auth.db from the server's copy, for a worker whose directory is empty or was left behind.
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { constants, DatabaseSync } from 'node:sqlite'
import { backoffMs, sleep } from '../connection/timing.ts'
import { Ending } from '../exit-codes.ts'
import { describeError, type Log } from '../log.ts'
import type { CredentialService, StoredCredentials } from '../server/credential-service.ts'
import type { Settings } from '../settings.ts'
import { syncDirectory, Unreadable } from './database.ts'
import { makeSeal, type Seal } from './encryption-at-rest.ts'
import { changeName, copyName } from './replica.ts'

const RETRY_MIN_MS = 250
const RETRY_MAX_MS = 5_000

type RestoreSettings = Pick<Settings, 'sessionId' | 'authDir' | 'authKey' | 'previousAuthKey' | 'orphanTimeoutMs'>

/** The epoch that opened the directory last; undefined where there is nothing that can be read. */
function lastEpoch(directory: string): number | undefined {
  const path = join(directory, 'auth.db')
  if (!existsSync(path)) return undefined
  try {
    const sql = new DatabaseSync(path, { readOnly: true })
    try {
      return Number(sql.prepare("SELECT value FROM meta WHERE name = 'epoch'").get()?.value ?? 0)
    } finally {
      sql.close()
    }
  } catch {
    return undefined
  }
}

function unseal(seal: Seal, name: string, sealed: Buffer): Buffer {
  try {
    return seal.open(name, sealed)
  } catch {
    throw new Unreadable("the server's copy cannot be read: damaged, sealed with another key, or of another session")
  }
}

function apply(path: string, changes: Buffer[]): void {
  const sql = new DatabaseSync(path)
  try {
    for (const change of changes) {
      if (!sql.applyChangeset(change, { onConflict: () => constants.SQLITE_CHANGESET_ABORT }))
        throw new Unreadable("the server's copy does not fit the changes after it")
    }
  } finally {
    sql.close()
  }
}

function sync(path: string): void {
  const handle = openSync(path, 'r')
  fsyncSync(handle)
  closeSync(handle)
}

/** Everything is made under another name; a crash before the rename leaves no auth.db, and the next start fetches again. */
function write(directory: string, seal: Seal, { epoch, first, copy, changes }: StoredCredentials): void {
  const [path, unfinished] = [join(directory, 'auth.db'), join(directory, 'auth.new')]
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(unfinished + suffix, { force: true })
  writeFileSync(unfinished, unseal(seal, copyName(epoch, first), copy), { mode: 0o600 })
  apply(
    unfinished,
    changes.map((change, index) => unseal(seal, changeName(epoch, first + 1 + index), change)),
  )
  sync(unfinished)
  // The old log first: SQLite would write its pages into the new file.
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
  syncDirectory(directory)
  renameSync(unfinished, path)
  syncDirectory(directory)
}

/**
 * Makes the directory the continuation of what the server has. A directory whose last epoch shipped to the server last has all
 * of that and maybe more, and stays as it is; any other one is replaced. Throws Ending or Unreadable.
 */
export async function restoreCopy(settings: RestoreSettings, service: CredentialService, log: Log): Promise<void> {
  const startedAt = performance.now()
  for (let attempt = 0; performance.now() - startedAt < settings.orphanTimeoutMs; attempt++) {
    try {
      const stored = await service.fetch(lastEpoch(settings.authDir))
      if (!stored) return
      write(settings.authDir, makeSeal(settings.sessionId, settings), stored)
      log.info('credentials.restored', { epoch: stored.epoch, changes: stored.changes.length })
      return
    } catch (error) {
      if (error instanceof Ending || error instanceof Unreadable) throw error
      log.warn('credentials.not_fetched', { error: describeError(error) })
      await sleep(backoffMs(attempt, RETRY_MIN_MS, RETRY_MAX_MS))
    }
  }
  throw new Ending('ORPHANED', 'the server has not answered for too long')
}
