// Stands for whatsapp-rust-bridge, two megabytes of WebAssembly of which Baileys uses four functions: plain hashing, done here by Node.
// test/rust-bridge.test.ts compares each with the original.
import { createHash, hkdfSync } from 'node:crypto'

const PATCH_INTEGRITY = 'WhatsApp Patch Integrity'
const MUTATION_KEYS = 'WhatsApp Mutation Keys'
const LT_HASH_BYTES = 128
const KEY_BYTES = 32

export const md5 = (bytes: Uint8Array): Uint8Array => new Uint8Array(createHash('md5').update(bytes).digest())

export function hkdf(
  bytes: Uint8Array,
  length: number,
  { salt, info }: { salt?: Uint8Array; info?: string },
): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', bytes, salt ?? new Uint8Array(0), info ?? '', length))
}

export function expandAppStateKeys(
  keyData: Uint8Array,
): Record<'indexKey' | 'valueEncryptionKey' | 'valueMacKey' | 'snapshotMacKey' | 'patchMacKey', Uint8Array> {
  const bytes = hkdf(keyData, 5 * KEY_BYTES, { info: MUTATION_KEYS })
  const key = (number: number): Uint8Array => bytes.slice(number * KEY_BYTES, (number + 1) * KEY_BYTES)
  return {
    indexKey: key(0),
    valueEncryptionKey: key(1),
    valueMacKey: key(2),
    snapshotMacKey: key(3),
    patchMacKey: key(4),
  }
}

/** A sum of 64 little-endian numbers of 16 bits, from which what was added can be subtracted again. */
export class LTHashAntiTampering {
  subtractThenAdd(base: Uint8Array, subtract: Uint8Array[], add: Uint8Array[]): Uint8Array {
    const sum = Uint8Array.from(base) // not slice(), which gives a view where the base is a Buffer
    for (const value of subtract) accumulate(sum, value, -1)
    for (const value of add) accumulate(sum, value, 1)
    return sum
  }
}

function accumulate(sum: Uint8Array, value: Uint8Array, sign: 1 | -1): void {
  const expanded = hkdf(value, LT_HASH_BYTES, { info: PATCH_INTEGRITY })
  const [sums, terms] = [new DataView(sum.buffer), new DataView(expanded.buffer)]
  for (let at = 0; at < LT_HASH_BYTES; at += 2)
    sums.setUint16(at, sums.getUint16(at, true) + sign * terms.getUint16(at, true), true)
}
