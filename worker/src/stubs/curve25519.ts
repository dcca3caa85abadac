// Stands for curve25519-js, of which only signing is left: it verifies in plain JavaScript, which takes a fifth of the CPU of a whole start.
// An XEdDSA signature is an Ed25519 one under the same key in another form, and that Node verifies itself.
// test/curve25519.test.ts compares the two.
import { createPublicKey, verify as verifyEd25519 } from 'node:crypto'
import { generateKeyPair, sharedKey, sign } from '../../node_modules/curve25519-js/lib/index.js'

const FIELD = 2n ** 255n - 19n
const SIGN_BIT = 0x80
const ED25519_DER_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let bits = exponent; bits > 0n; bits >>= 1n) {
    if (bits & 1n) result = (result * base) % FIELD
    base = (base * base) % FIELD
  }
  return result
}

const littleEndian = (bytes: Uint8Array): Buffer => Buffer.from(bytes).reverse()

/** The same point as Ed25519 writes it: y = (u - 1) / (u + 1). Which of the two x it has comes from elsewhere. */
function toEdwards(publicKey: Uint8Array): Buffer {
  const u = BigInt.asUintN(255, BigInt(`0x${littleEndian(publicKey).toString('hex')}`))
  const y = ((u + FIELD - 1n) * power(u + 1n, FIELD - 2n)) % FIELD
  return littleEndian(Buffer.from(y.toString(16).padStart(64, '0'), 'hex'))
}

function verify(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (signature.length !== 64) throw new Error('wrong signature length')
  if (publicKey.length !== 32) throw new Error('wrong public key length')
  const [key, plain] = [toEdwards(publicKey), Buffer.from(signature)]
  key[31]! |= plain[63]! & SIGN_BIT
  plain[63]! &= ~SIGN_BIT
  return verifyEd25519(
    null,
    message,
    createPublicKey({ key: Buffer.concat([ED25519_DER_PREFIX, key]), format: 'der', type: 'spki' }),
    plain,
  )
}

export { generateKeyPair, sharedKey, sign, verify }
