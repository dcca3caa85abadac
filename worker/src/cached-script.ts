// Runs a CommonJS file with V8's code cache, stored beside it or in a directory that is given.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Script } from 'node:vm'

const DIGEST_BYTES = 32

type Require = (name: string) => unknown
type Wrapped = (
  exports: object,
  require: Require,
  module: { exports: object },
  filename: string,
  directory: string,
) => void

const sha256 = (...parts: (string | Uint8Array)[]): Buffer =>
  parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest()

/** The compiled form in a file, if it is there and whole. V8 itself looks only at lengths, version and flags. */
function readWhole(path: string): Buffer | undefined {
  try {
    const file = readFileSync(path)
    const compiled = file.subarray(0, -DIGEST_BYTES)
    return sha256(compiled).equals(file.subarray(-DIGEST_BYTES)) ? compiled : undefined
  } catch {
    return undefined
  }
}

/** Writes under another name and renames: readers see nothing, or all. A directory that cannot be written is not an error. */
function writeWhole(path: string, compiled: Buffer): void {
  const unfinished = `${path}.${process.pid}.new`
  try {
    writeFileSync(unfinished, Buffer.concat([compiled, sha256(compiled)]), { mode: 0o644 })
    renameSync(unfinished, path)
  } catch {
    rmSync(unfinished, { force: true })
  }
}

/** Removes what earlier versions have kept in a directory of our own. */
function removeOthers(path: string): void {
  for (const name of readdirSync(dirname(path)))
    if (name.startsWith('code-') && name !== basename(path)) rmSync(join(dirname(path), name), { force: true })
}

export class CachedScript {
  readonly #path: string
  readonly #cache: string
  readonly #isShared: boolean
  readonly #script: Script
  #isKept: boolean

  /**
   * `flags` are those set at run time; with those of the command line they decide whether V8 accepts what is kept.
   * `directory` is the worker's own: V8 runs what it finds in a cache unseen, so workers that do not trust one another must not share it.
   */
  constructor(path: string, flags: readonly string[], directory?: string) {
    const source = readFileSync(path, 'latin1')
    const key = sha256(source, JSON.stringify([process.version, process.arch, process.execArgv, flags]))
      .toString('hex')
      .slice(0, 16)
    this.#path = path
    this.#cache = join(directory ?? dirname(path), `code-${key}.cache`)
    this.#isShared = directory === undefined
    const cachedData = readWhole(this.#cache)
    this.#script = new Script(`(function(exports,require,module,__filename,__dirname){${source}\n})`, {
      filename: path,
      cachedData,
    })
    this.#isKept = cachedData !== undefined && this.#script.cachedDataRejected === false
  }

  /** Whether the compiled form was found and accepted, or has been written. */
  get isKept(): boolean {
    return this.#isKept
  }

  run(require: Require): void {
    const module = { exports: {} }
    const wrapped = this.#script.runInThisContext() as Wrapped
    wrapped(module.exports, require, module, this.#path, dirname(this.#path))
  }

  /** Keeps the compiled form for those who start later, unless there is one already. */
  keep(): void {
    if (this.#isKept) return
    this.#isKept = true
    writeWhole(this.#cache, this.#script.createCachedData())
    if (!this.#isShared) removeOthers(this.#cache)
  }
}
