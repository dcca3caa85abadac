// Edits that are encrypted once more, under the secret of the message that they change. Baileys hands them over unread.
import { createDecipheriv, hkdfSync } from 'node:crypto'
import { proto } from 'baileys'
import type { Names } from './poll-votes.ts'

const PURPOSE = 'Message Edit'
const TAG_BYTES = 16

type SecretEdit = proto.Message.ISecretEncryptedMessage

/** The edit in a message, if it has one of this kind. */
export function secretEditOf(message: proto.IMessage | null | undefined): SecretEdit | undefined {
  const found = message?.secretEncryptedMessage
  const { MESSAGE_EDIT } = proto.Message.SecretEncryptedMessage.SecretEncType
  return found?.secretEncType === MESSAGE_EDIT ? found : undefined
}

/** What an edit holds; undefined where it cannot be read. Its author is also that of the message, by one of both names. */
export function openEdit(edit: SecretEdit, secret: Uint8Array, author: Names): proto.IMessage | undefined {
  const { encPayload, encIv, targetMessageKey } = edit
  if (!encPayload || !encIv || encPayload.length <= TAG_BYTES) return undefined
  const end = encPayload.length - TAG_BYTES
  for (const name of [author.lid, author.pn]) {
    if (!name) continue
    try {
      const info = `${targetMessageKey?.id ?? ''}${name}${name}${PURPOSE}`
      const key = Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), info, 32))
      const decipher = createDecipheriv('aes-256-gcm', key, encIv)
      decipher.setAuthTag(encPayload.subarray(end))
      return proto.Message.decode(Buffer.concat([decipher.update(encPayload.subarray(0, end)), decipher.final()]))
    } catch {
      // Encrypted under the other name, or not by whoever sent it.
    }
  }
  return undefined
}
