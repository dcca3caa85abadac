import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { CachedScript } from '../src/cached-script.ts'

let directory: string
let path: string
const seen: unknown[] = []

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cached-script-'))
  path = join(directory, 'program.cjs')
  writeFileSync(path, 'const answer = () => 41 + 1; require("tell")([answer(), __dirname])')
  seen.length = 0
})
afterEach(() => rmSync(directory, { recursive: true }))

const run = (script: CachedScript): void => script.run(() => (value: unknown) => seen.push(value))
const caches = (): string[] => readdirSync(directory).filter(name => name.endsWith('.cache'))

function keep(): string {
  const script = new CachedScript(path, [])
  run(script)
  script.keep()
  return join(directory, caches()[0] ?? '')
}

test('what one has compiled the next one uses, and it does the same', () => {
  assert.equal(new CachedScript(path, []).isKept, false)
  keep()
  const next = new CachedScript(path, [])
  run(next)
  assert.equal(next.isKept, true)
  assert.deepEqual(seen, [
    [42, directory],
    [42, directory],
  ])
})

test('a damaged compiled form is not given to V8, and is replaced', () => {
  const cache = keep()
  const whole = readFileSync(cache)
  const damaged = Buffer.from(whole)
  damaged[damaged.length >> 1]! ^= 1
  for (const content of [damaged, whole.subarray(0, -40), Buffer.alloc(0)]) {
    writeFileSync(cache, content)
    const script = new CachedScript(path, [])
    run(script)
    assert.equal(script.isKept, false)
    script.keep()
    assert.equal(new CachedScript(path, []).isKept, true)
  }
  assert.equal(seen.length, 4)
})

test('another source of the same length, or other flags, do not get this one', () => {
  keep()
  assert.equal(new CachedScript(path, ['--other']).isKept, false)
  writeFileSync(path, readFileSync(path, 'latin1').replace('41 + 1', '41 + 2'))
  const script = new CachedScript(path, [])
  run(script)
  assert.equal(script.isKept, false)
  assert.deepEqual(seen.at(-1), [43, directory])
})

test('a directory that cannot be written is no problem', () => {
  const script = new CachedScript(path, [])
  rmSync(directory, { recursive: true })
  script.keep()
  assert.deepEqual(seen, [])
  writeFileSync(`${(directory = mkdtempSync(join(tmpdir(), 'cached-script-')))}/x`, '')
})

test('in a directory of its own nothing lies beside the program, and older forms go', () => {
  const own = mkdtempSync(join(directory, 'own-'))
  writeFileSync(join(own, 'code-0.cache'), 'of an older bundle')
  const script = new CachedScript(path, [], own)
  run(script)
  script.keep()
  assert.deepEqual(caches(), [])
  assert.equal(readdirSync(own).length, 1)
  assert.equal(new CachedScript(path, [], own).isKept, true)
})
