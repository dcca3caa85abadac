import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { test } from 'node:test'
import * as original from 'whatsapp-rust-bridge'
import * as ours from '../src/stubs/rust-bridge.ts'

const VECTORS = 200
const bytes = (most: number, least = 0): Buffer => randomBytes(randomInt(least, most + 1))
const plain = (value: Uint8Array): Uint8Array => new Uint8Array(value)

function repeatedly(check: () => void): void {
  for (let number = 0; number < VECTORS; number++) check()
}

test('md5 gives what the original gives', () => {
  repeatedly(() => {
    const input = bytes(200)
    assert.deepEqual(ours.md5(input), plain(original.md5(input)))
  })
})

test('hkdf gives what the original gives, with and without salt and info', () => {
  repeatedly(() => {
    const [input, length] = [bytes(100, 1), randomInt(1, 256)]
    for (const options of [
      {},
      { info: 'WhatsApp Image Keys' },
      { salt: bytes(64, 1) },
      { salt: Buffer.alloc(0) },
      { salt: bytes(64, 1), info: '\u05d0' },
    ]) {
      assert.deepEqual(ours.hkdf(input, length, options), plain(original.hkdf(input, length, options)))
    }
  })
})

test('the five keys of a mutation are those of the original', () => {
  repeatedly(() => {
    const input = bytes(64, 1)
    const theirs = original.expandAppStateKeys(input)
    for (const [name, key] of Object.entries(ours.expandAppStateKeys(input))) {
      assert.deepEqual(key, plain(theirs[name as 'indexKey']), name)
    }
  })
})

test('the hash against tampering is that of the original, and the base stays as it was', () => {
  repeatedly(() => {
    const base = randomBytes(128)
    const before = Buffer.from(base)
    const [subtract, add] = [
      Array.from({ length: randomInt(4) }, () => bytes(40, 1)),
      Array.from({ length: randomInt(4) }, () => bytes(40, 1)),
    ]
    const result = new ours.LTHashAntiTampering().subtractThenAdd(base, subtract, add)
    assert.deepEqual(plain(result), plain(new original.LTHashAntiTampering().subtractThenAdd(base, subtract, add)))
    assert.deepEqual(base, before)
  })
})
