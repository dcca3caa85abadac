// Decrypts votes of polls. Baileys has the arithmetic, and leaves out who voted for what.
import { createHash } from 'node:crypto'
import { decryptPollVote, type proto, type WAMessage } from 'baileys'
import { pollSecret } from './incoming-content.ts'

/** Both names of a person, without a device. */
export type Names = { lid?: string; pn?: string }

const NAMESPACES = ['lid', 'pn'] as const

/** The chosen options of a vote; undefined where it cannot be read. Creator and voter are named in the same namespace. */
export function chosenOptions(
  vote: proto.Message.IPollEncValue | null | undefined,
  poll: WAMessage,
  creator: Names,
  voter: Names,
): string[] | undefined {
  const known = pollSecret(poll.message)
  if (!known || !vote?.encPayload || !vote.encIv) return undefined
  const { encPayload, encIv } = vote
  for (const space of NAMESPACES) {
    const [pollCreatorJid, voterJid] = [creator[space], voter[space]]
    if (!pollCreatorJid || !voterJid) continue
    try {
      const context = { pollCreatorJid, pollMsgId: poll.key.id ?? '', pollEncKey: known.secret, voterJid }
      const { selectedOptions } = decryptPollVote({ encPayload, encIv }, context)
      const chosen = new Set((selectedOptions ?? []).map(digest => Buffer.from(digest).toString('hex')))
      return known.options.filter(option => chosen.has(createHash('sha256').update(option).digest('hex')))
    } catch {
      // Encrypted under the other names, or not for us at all.
    }
  }
  return undefined
}
