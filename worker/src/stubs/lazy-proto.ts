// WhatsApp's 672 message types, each read from a file beside the bundle when it is first used: a worker needs a few dozen of them.
import { openSync, readSync } from 'node:fs'
import { Script } from 'node:vm'

/** Where a type's source is in the file. */
export type Entry = readonly [name: string, offset: number, length: number]
/** What the source evaluates to: a function that makes the type, and the types that belong inside of it. */
type Chunk = readonly [make: (...surroundings: unknown[]) => object, inner: readonly Entry[]]
export type Read = (offset: number, length: number) => string

/** Reads pieces of a file. It is opened at once and stays open, so that a newer build which replaces it cannot mix with this one. */
export function openPieces(path: string): Read {
  const file = openSync(path, 'r')
  return (offset, length) => {
    const bytes = Buffer.allocUnsafeSlow(length)
    for (let read = 0; read < length; ) {
      const more = readSync(file, bytes, read, length - read, offset + read)
      if (more === 0) throw new Error(`${path} is too short`)
      read += more
    }
    return bytes.toString('latin1')
  }
}

/** Gives `owner` its types as properties which become ordinary ones when they are first looked at. */
export function defineLazily(owner: object, entries: readonly Entry[], read: Read, surroundings: unknown[]): void {
  for (const [name, offset, length] of entries) {
    const become = (value: unknown): void => {
      Object.defineProperty(owner, name, { value, configurable: true, enumerable: true, writable: true })
    }
    const get = (): object => {
      const [make, inner] = new Script(read(offset, length), { filename: name }).runInThisContext() as Chunk
      const made = make(...surroundings)
      become(made)
      defineLazily(made, inner, read, surroundings)
      return made
    }
    Object.defineProperty(owner, name, { get, set: become, configurable: true, enumerable: true })
  }
}
