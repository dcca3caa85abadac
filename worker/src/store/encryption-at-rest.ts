// Encryption of stored values: a mark, then plain bytes or AES-256-GCM bound to the session and the value's name.
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'

const PLAIN = 0
const SEALED = 1
const IV_BYTES = 12
const TAG_BYTES = 16

/** The key that seals, and the one before it, with which what was sealed earlier can still be opened. */
export type SealKeys = { authKey: Buffer | undefined; previousAuthKey?: Buffer | undefined }

export type Seal = {
  close(name: string, value: Uint8Array): Uint8Array
  /** Throws when the value is damaged, was moved from another place, or needs another key. */
  open(name: string, stored: Uint8Array): Buffer
}

/** Tells keys apart without giving them away; the server computes the same. */
export const keyId = (key: Buffer): string => createHash('sha256').update(key).digest('hex').slice(0, 16)

export function makeSeal(sessionId: string, { authKey: key, previousAuthKey: previous }: SealKeys): Seal {
  const bindTo = (name: string): Buffer => Buffer.from(`${sessionId}\0${name}`)
  const unseal = (name: string, bytes: Buffer, using: Buffer): Buffer => {
    const iv = bytes.subarray(1, 1 + IV_BYTES)
    const decipher = createDecipheriv('aes-256-gcm', using, iv, { authTagLength: TAG_BYTES }).setAAD(bindTo(name))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    return Buffer.concat([decipher.update(bytes.subarray(1 + IV_BYTES, -TAG_BYTES)), decipher.final()])
  }
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
      try {
        return unseal(name, bytes, key)
      } catch (error) {
        if (!previous) throw error
        return unseal(name, bytes, previous)
      }
    },
  }
}
