// What accompanies a message that we send: the message that it answers, and the people that it mentions.
import {
  type AnyMessageContent,
  getContentType,
  isJidGroup,
  jidDecode,
  normalizeMessageContent,
  type proto,
  type WASocket,
} from 'baileys'
import type { Claimed, Person, Quote } from '../server/outbox.ts'
import type { Messages } from '../store/message-store.ts'
import type { Address, Addressing } from './addressing.ts'

const jidOf = ({ phone, lid }: Person): string | undefined =>
  lid ? `${lid}@lid` : phone ? `${phone}@s.whatsapp.net` : undefined

/** People as WhatsApp names them in this chat, and the texts with these names: a mention is `@` and the user part of the jid. */
export async function mentionPeople(
  sock: WASocket,
  addressing: Addressing,
  people: Person[],
  content: AnyMessageContent,
): Promise<{ content: AnyMessageContent; jids: string[] }> {
  const jids: string[] = []
  let named = content
  for (const person of people) {
    const known = jidOf(person)
    if (!known) continue
    const jid = (await addressing.resolve(sock, known))?.jid ?? known
    jids.push(jid)
    const [written, meant] = [`@${person.lid ?? person.phone}`, `@${jidDecode(jid)?.user}`]
    for (const field of ['text', 'caption'] as const) {
      const words = (named as Record<string, unknown>)[field]
      if (typeof words === 'string')
        named = { ...named, [field]: words.split(written).join(meant) } as AnyMessageContent
    }
  }
  return { content: named, jids }
}

/** The quoted message as it is shown: our own as it was sent, anybody's else by its text. */
function quotedMessage({ whatsappId, fromMe, text }: Quote, messages: Messages): proto.IMessage {
  const own = fromMe ? normalizeMessageContent(messages.find(whatsappId)?.message) : undefined
  const type = own && getContentType(own)
  if (!own || !type) return { conversation: text ?? '' }
  const part = own[type]
  return { [type]: typeof part === 'object' ? { ...part, contextInfo: undefined } : part }
}

/** Who wrote the quoted message, as the chat names people. */
function authorOf(quote: Quote, { jid }: Address, self: string | undefined): string | undefined {
  if (quote.fromMe) return self
  return isJidGroup(jid) ? jidOf(quote) : jid
}

/** Writes the quote and the mentions into a composed message, whatever kind it is. */
export function addContext(
  message: proto.IMessage | null | undefined,
  { replyTo }: Pick<Claimed, 'replyTo'>,
  jids: string[],
  address: Address,
  known: { self: string | undefined; messages: Messages },
): void {
  const content = normalizeMessageContent(message)
  const type = content && getContentType(content)
  const part = type && (content[type] as { contextInfo?: proto.IContextInfo | null } | string | null)
  if (!part || typeof part !== 'object' || !(replyTo || jids.length)) return
  const quote: proto.IContextInfo = replyTo
    ? {
        stanzaId: replyTo.whatsappId,
        participant: authorOf(replyTo, address, known.self) ?? null,
        quotedMessage: quotedMessage(replyTo, known.messages),
      }
    : {}
  part.contextInfo = { ...part.contextInfo, ...quote, ...(jids.length ? { mentionedJid: jids } : {}) }
}
