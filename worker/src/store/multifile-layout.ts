// Baileys' multi-file layout, one JSON file per key: imported once, written by an export.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { BufferJSON } from 'baileys'
import { type Database, Unreadable } from './database.ts'

/** Longest first: `sender-key-memory-x` is not a `sender-key`. */
const TYPES = [
  'app-state-sync-version',
  'app-state-sync-key',
  'sender-key-memory',
  'lid-mapping',
  'device-list',
  'identity-key',
  'sender-key',
  'pre-key',
  'session',
  'tctoken',
]

export type StoredKey = { type: string; id: string; value: unknown }

/** File names lose `/` and `:`; both can be told back from the type: keys of app state are base64, sender keys use `::`. */
function idFromFile(type: string, name: string): string {
  if (type === 'app-state-sync-key') return name.replaceAll('__', '/')
  if (type === 'sender-key') return name.replaceAll('--', '::')
  return name
}

const fileName = (type: string, id: string): string => `${type}-${id}.json`.replaceAll('/', '__').replaceAll(':', '-')

function readJson(directory: string, file: string): unknown {
  try {
    return JSON.parse(readFileSync(join(directory, file), 'utf8'), BufferJSON.reviver)
  } catch {
    throw new Unreadable(`${file} cannot be read`)
  }
}

/** Reads a directory in Baileys' layout; undefined when there is none. A directory of keys without creds.json is not "none". */
export function readMultiFile(directory: string): { creds: unknown; keys: StoredKey[] } | undefined {
  const files = readdirSync(directory).filter(name => name.endsWith('.json'))
  const keys: StoredKey[] = []
  for (const file of files) {
    const type = TYPES.find(prefix => file.startsWith(`${prefix}-`))
    if (!type) continue
    const id = idFromFile(type, file.slice(type.length + 1, -'.json'.length))
    keys.push({ type, id, value: readJson(directory, file) })
  }
  if (files.includes('creds.json')) return { creds: readJson(directory, 'creds.json'), keys }
  if (keys.length) throw new Unreadable('there are keys but no creds.json')
  return undefined
}

/** Removes what was imported: beside a store that is sealed it would be readable by whoever has the disk. */
export function removeMultiFile(directory: string): void {
  for (const name of readdirSync(directory)) {
    const isKey = name.endsWith('.json') && TYPES.some(type => name.startsWith(`${type}-`))
    if (isKey || name === 'creds.json') rmSync(join(directory, name), { force: true })
  }
}

/** Writes every key and the credentials in Baileys' layout into an empty or new directory. */
export function writeMultiFile({ sql, seal }: Database, directory: string): number {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  if (existsSync(join(directory, 'creds.json'))) throw new Error('the directory already holds an account')
  const rows = sql.prepare("SELECT name, value FROM keys WHERE name NOT LIKE 'inbox/%'").all() as {
    name: string
    value: Uint8Array
  }[]
  for (const { name, value } of rows) {
    const slash = name.indexOf('/')
    const file = slash < 0 ? `${name}.json` : fileName(name.slice(0, slash), name.slice(slash + 1))
    writeFileSync(join(directory, file), seal.open(`keys/${name}`, value), { mode: 0o600 })
  }
  return rows.length
}
