// Compares every type that is loaded lazily from the built file with the original: made, encoded, decoded, and turned into plain objects.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { proto as original } from 'baileys'
import $protobuf from 'protobufjs/minimal.js'
import { countTypes, makeLazyProto, splitProto } from '../build/proto.mjs'
import { defineLazily, type Entry } from '../src/stubs/lazy-proto.ts'

type Type = {
  (): void
  prototype: Record<string, unknown>
  encode(message: object): { finish(): Uint8Array }
  decode(bytes: Uint8Array): object
  fromObject(value: object): object
  toObject(message: object, options?: object): object
  getTypeUrl(): string
}
type Scope = Record<string, Type>

const SOURCE = join(import.meta.dirname, '..', 'node_modules', 'baileys', 'WAProto', 'index.js')
const SAMPLES = 3
const TYPES = 672
let lazy: Scope

/** Runs the module that the build makes, with the file of pieces in memory. */
before(async () => {
  const { module, text } = await makeLazyProto(SOURCE, 'lazy')
  const body = module
    .replace(/^ *import .*$/gm, '')
    .replace(/^ *export \{.*$/gm, '')
    .replace('export const proto =', 'const proto =')
  const roots = { ...$protobuf, roots: {} as Record<string, unknown> }
  const openPieces = () => (offset: number, length: number) => text.slice(offset, offset + length)
  const make = new Function('$protobuf', 'defineLazily', 'openPieces', 'join', '__dirname', `${body}\nreturn proto`)
  lazy = make(roots, defineLazily, openPieces, join, '') as Scope
})

/** Every type and enum below a scope, by its path. */
function* walk(theirs: Scope, ours: Scope, path = 'proto'): Generator<[string, Type, Type]> {
  for (const name of Object.keys(theirs).filter(name => /^[A-Z]/.test(name) && typeof theirs[name] !== 'number')) {
    const [their, our] = [theirs[name]!, ours[name]!]
    yield [`${path}.${name}`, their, our]
    if (typeof their === 'function') yield* walk(their as unknown as Scope, our as unknown as Scope, `${path}.${name}`)
  }
}

const isMessage = (type: Type): boolean => typeof type === 'function'

/** The same numbers in every run. */
function makeNoise(seed: number): () => number {
  let state = seed
  return () => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff)
}

/** Bytes for a message of this type: each field number with each wire type, without what the type does not know. */
function sample(type: Type, seed: number): Uint8Array {
  const noise = makeNoise(seed)
  const parts: Uint8Array[] = []
  for (let field = 1; field <= 120; field++) {
    for (const wire of [0, 1, 2, 5]) {
      const writer = $protobuf.Writer.create().uint32((field << 3) | wire)
      if (wire === 0) writer.uint32(noise() % 3 === 0 ? noise() : noise() % 2)
      else if (wire === 1) writer.fixed64(noise())
      else if (wire === 5) writer.fixed32(noise())
      else writer.string(noise() % 2 ? '' : `text ${noise() % 100}`)
      const part = writer.finish()
      if (isTaken(type, part) && isTaken(type, Buffer.concat([...parts, part]))) parts.push(part)
    }
  }
  return Buffer.concat(parts)
}

function isTaken(type: Type, part: Uint8Array): boolean {
  try {
    return (
      Object.keys(type.decode(part)).some(name => name !== '$unknowns') &&
      type.encode(type.decode(part)).finish().length > 0
    )
  } catch {
    return false
  }
}

const outcome = (work: () => unknown): unknown => {
  try {
    return work()
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`
  }
}

const FORMS = [
  {},
  { defaults: true, arrays: true, objects: true, oneofs: true },
  { longs: String, enums: String, bytes: String },
  { longs: Number, json: true },
]

/** Everything that can be done with these bytes, in a form that can be compared. */
function everything(type: Type, bytes: Uint8Array): unknown[] {
  const message = type.decode(bytes)
  const plain = FORMS.map(form => outcome(() => type.toObject(message, form)))
  return [
    JSON.stringify(message),
    Buffer.from(type.encode(message).finish()).toString('hex'),
    JSON.stringify(plain),
    ...plain.map(form =>
      outcome(() => Buffer.from(type.encode(type.fromObject(form as object)).finish()).toString('hex')),
    ),
    type.getTypeUrl(),
  ]
}

test('the file is cut into every type it has', async () => {
  const { types } = splitProto(await readFile(SOURCE, 'utf8'))
  assert.equal(countTypes(types), TYPES)
})

test('a source that looks different is refused and not cut wrongly', async () => {
  const source = await readFile(SOURCE, 'utf8')
  assert.throws(
    () => splitProto(source.replace('    return proto;', '    proto.more = 1;\n    return proto;')),
    /does not look as expected/,
  )
  assert.throws(() => splitProto('export const nothing = 1'), /does not look as expected/)
})

test('nothing is loaded before it is looked at, and then it is an ordinary property', () => {
  const owner: Record<string, unknown> = {}
  const entries: Entry[] = [['Thing', 0, 1]]
  let reads = 0
  defineLazily(
    owner,
    entries,
    () => {
      reads++
      return '[function(a) { return { a } }, []]'
    },
    [7],
  )
  assert.deepEqual([Object.keys(owner), reads], [['Thing'], 0])
  assert.deepEqual([owner.Thing, owner.Thing, reads], [{ a: 7 }, { a: 7 }, 1])
  assert.deepEqual(Object.getOwnPropertyDescriptor(owner, 'Thing'), {
    value: { a: 7 },
    configurable: true,
    enumerable: true,
    writable: true,
  })
})

test('every type has the same fields, and every enum the same values', () => {
  let count = 0
  for (const [path, their, our] of walk(original as unknown as Scope, lazy)) {
    count++
    assert.deepEqual(Object.keys(our), Object.keys(their), path)
    if (isMessage(their))
      assert.deepEqual(
        Object.getOwnPropertyNames(our.prototype).sort(),
        Object.getOwnPropertyNames(their.prototype).sort(),
        path,
      )
    else
      assert.deepEqual({ ...our, ...Object.getPrototypeOf(our) }, { ...their, ...Object.getPrototypeOf(their) }, path)
  }
  assert.equal(count, TYPES)
})

test('every type encodes, decodes and converts as the original does', () => {
  let comparisons = 0
  let filled = 0
  for (const [path, their, our] of walk(original as unknown as Scope, lazy)) {
    if (!isMessage(their)) continue
    for (let seed = 1; seed <= SAMPLES; seed++) {
      const bytes = sample(their, seed)
      const expected = everything(their, bytes)
      assert.deepEqual(everything(our, bytes), expected, path)
      comparisons += expected.length
      if (bytes.length > 0) filled++
    }
  }
  assert.ok(comparisons > 10_000, `${comparisons} comparisons`)
  assert.ok(filled > 1_200, `${filled} samples had something in them`)
})
