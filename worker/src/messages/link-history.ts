// The chats that the phone tells a device when it is linked: who, under which names, when last, and the last texts if asked for.
import { isJidGroup, isLidUser, isPnUser, jidDecode, normalizeMessageContent, type proto } from 'baileys'
import type { Events } from '../server/events.ts'
import type { LinkHistoryMode } from '../settings.ts'
import { Bounded } from '../store/bounded-cache.ts'

/** How many chats are told in all, the newest of each part; a phone sends its history in a few parts. */
const MOST_CHATS = 2_000
const CHATS_PER_EVENT = 50
/** The last ones of a chat, and how much of each. */
export const MOST_TEXTS = 20
const LONGEST_TEXT = 4_096
const LONGEST_NAME = 100
const MOST_NAMES = 5_000

type History = proto.IHistorySync
type Conversation = proto.IConversation
type PastText = { whatsappId: string; at: number; text: string; fromMe?: true }
type Chat = { at: number; phone?: string; lid?: string; group?: string; name?: string; texts?: PastText[] }

const millis = (seconds: Conversation['conversationTimestamp']): number => Number(seconds ?? 0) * 1000

export class LinkHistory {
  readonly #mode: LinkHistoryMode
  readonly #events: Events
  /** What people call themselves, which comes in a part of its own. */
  readonly #names = new Bounded(MOST_NAMES)
  #told = 0

  constructor(mode: LinkHistoryMode, events: Events) {
    this.#mode = mode
    this.#events = events
  }

  /** How many messages of each chat are to be decoded. */
  get textsPerChat(): number {
    return this.#mode === 'texts' ? MOST_TEXTS : 0
  }

  /** Reports the chats in a part of the history, if they are wanted. */
  came({ conversations, pushnames }: History): void {
    if (this.#mode === 'off') return
    for (const { id, pushname } of pushnames ?? []) if (id && pushname) this.#names.set(id, pushname)
    const chats = (conversations ?? [])
      .map(each => this.#describe(each))
      .filter(each => each !== undefined)
      .sort((one, other) => other.at - one.at)
      .slice(0, MOST_CHATS - this.#told)
    this.#told += chats.length
    for (let at = 0; at < chats.length; at += CHATS_PER_EVENT)
      this.#events.emit('LINK_HISTORY', { chats: chats.slice(at, at + CHATS_PER_EVENT) })
  }

  #describe(conversation: Conversation): Chat | undefined {
    const { id, pnJid, lidJid, name, displayName, conversationTimestamp, lastMsgTimestamp } = conversation
    const at = millis(conversationTimestamp) || millis(lastMsgTimestamp)
    const names = [id, pnJid, lidJid].filter(jid => typeof jid === 'string')
    const [pn, lid] = [names.find(jid => isPnUser(jid)), names.find(jid => isLidUser(jid))]
    const group = names.find(jid => isJidGroup(jid))
    if (!at || !(group || pn || lid)) return undefined
    const called = name || displayName || names.map(jid => this.#names.get<string>(jid)).find(each => each)
    const texts = this.#textsOf(conversation)
    return {
      at,
      ...(group ? { group } : {}),
      ...(pn && !group ? { phone: jidDecode(pn)?.user ?? '' } : {}),
      ...(lid && !group ? { lid: jidDecode(lid)?.user ?? '' } : {}),
      ...(called ? { name: called.slice(0, LONGEST_NAME) } : {}),
      ...(texts.length ? { texts } : {}),
    }
  }

  #textsOf({ messages }: Conversation): PastText[] {
    if (this.#mode !== 'texts') return []
    const found: PastText[] = []
    for (const { message } of (messages ?? []).slice(0, MOST_TEXTS)) {
      const content = normalizeMessageContent(message?.message)
      const text = content?.conversation || content?.extendedTextMessage?.text
      const at = Number(message?.messageTimestamp ?? 0) * 1000
      if (!text || !at || !message?.key?.id) continue
      const fromMe = message.key.fromMe ? ({ fromMe: true } as const) : {}
      found.push({ whatsappId: message.key.id, at, text: text.slice(0, LONGEST_TEXT), ...fromMe })
    }
    return found
  }
}
