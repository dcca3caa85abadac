import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { test } from 'node:test'
import * as original from '../node_modules/curve25519-js/lib/index.js'
import { verify } from '../src/stubs/curve25519.ts'

const VECTORS = 20

/** Changes one bit somewhere. */
function damaged(bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes)
  copy[randomInt(copy.length)]! ^= 1 << randomInt(8)
  return copy
}

function sample(): { key: Uint8Array; message: Uint8Array; signature: Uint8Array } {
  const pair = original.generateKeyPair(randomBytes(32))
  const message = Uint8Array.from(randomBytes(randomInt(1, 200)))
  return {
    key: pair.public,
    message,
    signature: original.sign(pair.private, message, Uint8Array.from(randomBytes(64))),
  }
}

test('a signature of the original is accepted', () => {
  for (let number = 0; number < VECTORS; number++) {
    const { key, message, signature } = sample()
    assert.equal(verify(key, message, signature), true)
  }
})

test('whatever was damaged is judged as the original judges it', () => {
  let refused = 0
  for (let number = 0; number < VECTORS; number++) {
    const { key, message, signature } = sample()
    const cases = [
      [damaged(key), message, signature],
      [key, damaged(message), signature],
      [key, message, damaged(signature)],
      [key, message, randomBytes(64)],
    ] as const
    for (const [k, m, s] of cases) {
      const judged = verify(k, m, s)
      assert.equal(judged, original.verify(k, m, Uint8Array.from(s)))
      if (!judged) refused++
    }
  }
  // The highest bit of a key says nothing, so that one damaged key in 256 is still the same key.
  assert.ok(refused > VECTORS * 3.8, `${refused} refused`)
})

test('wrong lengths are an error, as they are for the original', () => {
  const { key, message, signature } = sample()
  assert.throws(() => verify(key.subarray(1), message, signature), /wrong public key length/)
  assert.throws(() => verify(key, message, signature.subarray(1)), /wrong signature length/)
})
