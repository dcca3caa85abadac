// auth.db, the worker's only file: opened by one process at a time, written only by the newest epoch.
import {
  closeSync,
  existsSync,
  fchmodSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { Ending } from '../exit-codes.ts'
import type { StoreSettings } from '../settings.ts'
import { keyId, makeSeal, type Seal } from './encryption-at-rest.ts'

const SCHEMA = `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
  CREATE TABLE keys (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE events (sequence INTEGER PRIMARY KEY, lane TEXT NOT NULL, type TEXT NOT NULL, value BLOB NOT NULL) STRICT;
  CREATE INDEX events_by_lane ON events (lane, sequence);
  CREATE TABLE messages (id TEXT PRIMARY KEY, value BLOB NOT NULL, acknowledged_at INTEGER, stored_at INTEGER NOT NULL) STRICT;
  CREATE INDEX messages_by_age ON messages (stored_at);
`
/** What came after format 1 was made; an older worker does not look at it. */
const ADDITIONS = `
  CREATE TABLE IF NOT EXISTS reported (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
  CREATE TABLE IF NOT EXISTS undecryptable (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, id TEXT NOT NULL, value BLOB NOT NULL, due_at INTEGER NOT NULL,
    told INTEGER NOT NULL DEFAULT 0
  ) STRICT;
`
/** Tables that once had no primary key, without which SQLite records no changes of theirs; the name is the row's number. */
const KEYLESS_TABLES = { reported: 'id', undecryptable: 'name, id, value, due_at, told' } as const
/** Rows by their key: every table whose values are sealed. */
const SEALED_TABLES = { keys: 'name', events: 'sequence', messages: 'id', undecryptable: 'name' } as const

const MAGIC = Buffer.from('SQLite format 3\0')
const LOCK_WAIT_MS = 15_000
const LOCK_RETRY_MS = 100

/** The disk fails and not the file on it, by SQLite's primary codes: an I/O error, a full disk, a file that cannot be opened. */
const DISK_ERRORS = new Set([10, 13, 14])

function isDiskError(error: unknown): boolean {
  const code = (error as { errcode?: number }).errcode
  return code !== undefined && DISK_ERRORS.has(code & 0xff)
}

export class Unreadable extends Error {
  override name = 'Unreadable'
}

export type Database = {
  sql: DatabaseSync
  /** Compiles a statement once: a compiled one is memory outside of the heap, which nothing hurries to collect. */
  prepare(text: string): StatementSync
  seal: Seal
  /** Runs `work` in one transaction, unless a newer epoch has opened the file: then nothing is written and FENCED is thrown. */
  write<T>(work: () => T): T
  checkEpoch(): void
  /** Called after each commit. */
  onCommit: () => void
  /** Called when a write failed by the disk's fault. The writer gets the error too, but Baileys takes that for an undecryptable message. */
  onDiskFailure: (error: unknown) => void
  /** What whoever tells the world of a commit waits for; undefined where the file is all there is. */
  durable: () => Promise<void> | undefined
  close(): void
}

function openFile(path: string): DatabaseSync {
  const sql = new DatabaseSync(path, { timeout: 5_000 })
  sql.exec(
    'PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-256; PRAGMA wal_autocheckpoint=200; PRAGMA journal_size_limit=1048576;',
  )
  return sql
}

export function syncDirectory(directory: string): void {
  const handle = openSync(directory, 'r')
  fsyncSync(handle)
  closeSync(handle)
}

/** By handle: a confined worker must not change files by path, because the kernel does not check there whose they are. */
function setMode(path: string, mode: number): void {
  const handle = openSync(path, 'r')
  try {
    fchmodSync(handle, mode)
  } finally {
    closeSync(handle)
  }
}

export function prepareDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    setMode(directory, 0o700)
    for (const name of readdirSync(directory)) if (name.startsWith('auth.')) setMode(join(directory, name), 0o600)
  } catch (error) {
    throw new Ending(
      'AUTH_DIR_UNUSABLE',
      `AUTH_DIR cannot be used (${(error as NodeJS.ErrnoException).code ?? 'error'})`,
    )
  }
}

/** Holds an SQLite lock in a file of its own: the kernel frees it whenever the process ends, however it ends. */
function tryLock(directory: string): DatabaseSync | undefined {
  const lock = new DatabaseSync(join(directory, 'auth.lock'), { timeout: 0 })
  try {
    lock.exec('PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE')
    return lock
  } catch {
    lock.close()
    return undefined
  }
}

/** Tells the holder of the lock that a newer epoch waits, so that it ends at its next write or ping. */
function announceEpoch(path: string, epoch: number): void {
  if (!existsSync(path)) return
  const sql = openFile(path)
  try {
    const known = Number(sql.prepare("SELECT value FROM meta WHERE name = 'epoch'").get()?.value ?? -1)
    if (known > epoch) throw new Ending('FENCED', `epoch ${known} has opened this directory, ours is ${epoch}`)
    if (known === epoch) throw new Ending('LOCKED', 'another worker of the same epoch holds this directory')
    sql.prepare("UPDATE meta SET value = ? WHERE name = 'epoch'").run(epoch)
  } finally {
    sql.close()
  }
}

async function takeLock(directory: string, epoch: number | undefined): Promise<DatabaseSync> {
  const first = tryLock(directory)
  if (first) return first
  if (epoch === undefined) throw new Ending('LOCKED', 'a worker holds this directory')
  announceEpoch(join(directory, 'auth.db'), epoch)
  for (let waited = 0; waited < LOCK_WAIT_MS; waited += LOCK_RETRY_MS) {
    await new Promise(resolve => setTimeout(resolve, LOCK_RETRY_MS))
    const lock = tryLock(directory)
    if (lock) return lock
  }
  throw new Ending('LOCKED', 'another worker holds this directory')
}

/** Makes auth.db under another name and renames it when it is whole: a file called auth.db always holds an identity. */
function create(
  directory: string,
  settings: StoreSettings,
  fill: (database: Pick<Database, 'sql' | 'seal'>) => void,
): void {
  const path = join(directory, 'auth.db')
  const unfinished = join(directory, 'auth.new')
  for (const suffix of ['', '-wal', '-shm']) rmSync(unfinished + suffix, { force: true })
  const sql = openFile(unfinished)
  sql.exec(`BEGIN; ${SCHEMA}`)
  const put = sql.prepare('INSERT INTO meta (name, value) VALUES (?, ?)')
  put.run('format', 1)
  put.run('session', settings.sessionId)
  put.run('epoch', 0)
  put.run('sequence', 0)
  fill({ sql, seal: makeSeal(settings.sessionId, settings) })
  sql.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE')
  sql.close()
  renameSync(unfinished, path)
  syncDirectory(directory)
}

/** Seals what was stored before this key was given: plain, or sealed with the key before it. All of it, or nothing. */
function sealEverything(sql: DatabaseSync, seal: Seal, key: Buffer): void {
  sql.exec('BEGIN IMMEDIATE')
  for (const [table, key] of Object.entries(SEALED_TABLES)) {
    const update = sql.prepare(`UPDATE ${table} SET value = ? WHERE ${key} = ?`)
    for (const row of sql.prepare(`SELECT ${key} AS key, value FROM ${table}`).all() as {
      key: string | number
      value: Uint8Array
    }[]) {
      const name = `${table}/${row.key}`
      update.run(seal.close(name, seal.open(name, row.value)), row.key)
    }
  }
  const put = sql.prepare('INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)')
  put.run('sealed', 1)
  put.run('key', keyId(key))
  sql.exec('COMMIT')
  // What was plain is still in free pages and in the log.
  sql.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE)')
}

/** Gives the tables of an older worker the primary key that they have today; their rows keep their order. */
function giveKeys(sql: DatabaseSync): void {
  for (const [table, columns] of Object.entries(KEYLESS_TABLES)) {
    const found = sql.prepare(`SELECT name FROM pragma_table_info('${table}')`).all()
    if (found.length === 0 || found.some(column => column.name === 'number')) continue
    sql.exec(`BEGIN IMMEDIATE; ALTER TABLE ${table} RENAME TO keyless; ${ADDITIONS}
      INSERT INTO ${table} (number, ${columns}) SELECT rowid, ${columns} FROM keyless; DROP TABLE keyless; COMMIT`)
  }
}

function checkContents(sql: DatabaseSync, settings: StoreSettings, seal: Seal): void {
  const meta = Object.fromEntries(
    sql
      .prepare('SELECT name, value FROM meta')
      .all()
      .map(row => [row.name, row.value]),
  )
  if (meta.format !== 1) throw new Unreadable(`auth.db has format ${meta.format}, this worker knows 1`)
  if (meta.session !== settings.sessionId) throw new Unreadable('auth.db belongs to another session')
  giveKeys(sql)
  sql.exec(ADDITIONS)
  if (settings.authKey && meta.key !== keyId(settings.authKey)) sealEverything(sql, seal, settings.authKey)
}

/** SQLite would make a new database of an empty file; so the file is looked at before SQLite is. */
function checkFile(path: string): void {
  const handle = openSync(path, 'r')
  const head = Buffer.alloc(MAGIC.length)
  readSync(handle, head)
  closeSync(handle)
  if (!head.equals(MAGIC)) throw new Unreadable('auth.db is not a database')
}

function openExisting(directory: string, settings: StoreSettings, seal: Seal): DatabaseSync {
  const path = join(directory, 'auth.db')
  let sql: DatabaseSync | undefined
  try {
    checkFile(path)
    sql = openFile(path)
    const [verdict] = Object.values(sql.prepare('PRAGMA quick_check(1)').get() ?? {})
    if (verdict !== 'ok') throw new Unreadable('auth.db is damaged')
    checkContents(sql, settings, seal)
    return sql
  } catch (error) {
    sql?.close() // what it had begun to seal is as before
    if (error instanceof Unreadable) throw error
    if (isDiskError(error))
      throw new Ending('AUTH_DIR_UNUSABLE', `the disk of AUTH_DIR fails (${(error as Error).message})`)
    throw new Unreadable(`auth.db cannot be read (${(error as Error).message})`)
  }
}

/** Names of copies that the server asked for and has not fetched, or never will. */
const COPY = /^copy-[\w-]{1,64}\.db(-journal)?$/

function removeCopies(directory: string): void {
  for (const name of readdirSync(directory)) if (COPY.test(name)) rmSync(join(directory, name), { force: true })
}

/** Makes a whole and consistent copy beside the file while it is in use, and returns its name. An older copy goes. */
export function copyDatabase({ sql }: Pick<Database, 'sql'>, directory: string, id: string): string {
  const name = `copy-${id}.db`
  if (!COPY.test(name)) throw new Error('INVALID_COPY')
  removeCopies(directory)
  sql.prepare('VACUUM INTO ?').run(join(directory, name))
  setMode(join(directory, name), 0o600)
  return name
}

/** The stored epoch only rises: a worker that finds one higher than its own has been replaced. */
function guardEpoch(sql: DatabaseSync, epoch: number): () => void {
  const select = sql.prepare("SELECT value FROM meta WHERE name = 'epoch'")
  return () => {
    const stored = Number(select.get()?.value ?? 0)
    if (stored > epoch) throw new Ending('FENCED', `epoch ${stored} has opened this directory, ours is ${epoch}`)
  }
}

/**
 * Opens the directory for one worker. `restore` may write auth.db before it is looked at, `fill` puts an identity into a new
 * file. Without an epoch (an export) nothing is raised.
 * Throws Ending (LOCKED, FENCED, AUTH_DIR_UNUSABLE) or Unreadable.
 */
export async function openDatabase(
  settings: StoreSettings,
  epoch: number | undefined,
  fill: (database: Pick<Database, 'sql' | 'seal'>) => void,
  restore: () => Promise<void> = async () => undefined,
): Promise<Database> {
  const directory = settings.authDir
  prepareDirectory(directory)
  const lock = await takeLock(directory, epoch)
  const seal = makeSeal(settings.sessionId, settings)
  let sql: DatabaseSync
  try {
    removeCopies(directory)
    await restore()
    if (!existsSync(join(directory, 'auth.db'))) create(directory, settings, fill)
    sql = openExisting(directory, settings, seal)
  } catch (error) {
    lock.close()
    throw error
  }
  const statements = new Map<string, StatementSync>()
  const prepare = (text: string): StatementSync => {
    const known = statements.get(text) ?? sql.prepare(text)
    statements.set(text, known)
    return known
  }
  const checkEpoch = guardEpoch(sql, epoch ?? Number.MAX_SAFE_INTEGER)
  const database: Database = {
    sql,
    prepare,
    seal,
    write,
    checkEpoch,
    onCommit: () => undefined,
    onDiskFailure: () => undefined,
    durable: () => undefined,
    close: () => {
      sql.close()
      lock.close()
    },
  }
  function write<T>(work: () => T): T {
    try {
      sql.exec('BEGIN IMMEDIATE')
      checkEpoch()
      const result = work()
      sql.exec('COMMIT')
      database.onCommit()
      return result
    } catch (error) {
      if (sql.isTransaction) sql.exec('ROLLBACK')
      if (isDiskError(error)) database.onDiskFailure(error)
      throw error
    }
  }
  if (epoch !== undefined) write(() => sql.prepare("UPDATE meta SET value = ? WHERE name = 'epoch'").run(epoch))
  return database
}
