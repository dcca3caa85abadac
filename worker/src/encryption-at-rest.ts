// Encryption of stored values: a mark, then plain bytes or AES-256-GCM bound to the session and the value's name.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const PLAIN = 0
const SEALED = 1
const IV_BYTES = 12
const TAG_BYTES = 16

export type Seal = {
  close(name: string, value: Uint8Array): Uint8Array
  /** Throws when the value is damaged, was moved from another place, or needs another key. */
  open(name: string, stored: Uint8Array): Buffer
}

export const isSealed = (stored: Uint8Array): boolean => stored[0] === SEALED

export function makeSeal(sessionId: string, key: Buffer | undefined): Seal {
  const bindTo = (name: string): Buffer => Buffer.from(`${sessionId}\0${name}`)
  return {
    close(name, value) {
      if (!key) return Buffer.concat([Buffer.of(PLAIN), value])
      const iv = randomBytes(IV_BYTES)
      const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(bindTo(name))
      return Buffer.concat([Buffer.of(SEALED), iv, cipher.update(value), cipher.final(), cipher.getAuthTag()])
    },
    open(name, stored) {
      const bytes = Buffer.from(stored.buffer, stored.byteOffset, stored.byteLength)
      if (bytes[0] === PLAIN) return bytes.subarray(1)
      if (bytes[0] !== SEALED || !key) throw new Error('sealed with a key that was not given')
      const iv = bytes.subarray(1, 1 + IV_BYTES)
      const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES }).setAAD(bindTo(name))
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(bytes.subarray(1 + IV_BYTES, -TAG_BYTES)), decipher.final()])
    },
  }
}
