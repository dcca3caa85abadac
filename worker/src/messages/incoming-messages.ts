// Incoming messages and receipts, reported as events.
import {
  areJidsSameUser,
  type BinaryNode,
  getBinaryNodeChildren,
  isJidBroadcast,
  isJidGroup,
  isJidNewsletter,
  isJidStatusBroadcast,
  isLidUser,
  isPnUser,
  jidDecode,
  jidNormalizedUser,
  normalizeMessageContent,
  proto,
  type WAMessage,
  type WAMessageKey,
  type WASocket,
} from 'baileys'
import { millisOf, within } from '../connection/timing.ts'
import { describeError, type Log } from '../log.ts'
import type { Events } from '../server/events.ts'
import { Bounded } from '../store/bounded-cache.ts'
import type { Inbox } from '../store/inbox.ts'
import type { Messages } from '../store/message-store.ts'
import { GroupNames } from './group-names.ts'
import {
  type Content,
  type Context,
  read,
  readContext,
  readSecretEdit,
  secretOf,
  storable,
  thumbnailOf,
} from './incoming-content.ts'
import { chosenOptions, type Names } from './poll-votes.ts'
import { openEdit, secretEditOf } from './secret-edits.ts'
import type { Undecryptable } from './undecryptable-messages.ts'

const { DELIVERY_ACK, READ, PLAYED } = proto.WebMessageInfo.Status

const STATUS: Record<number, 'delivered' | 'read' | 'played'> = {
  [DELIVERY_ACK]: 'delivered',
  [READ]: 'read',
  [PLAYED]: 'played',
}

/** What a receipt for a whole group says, by its type; without one that it was delivered. */
const GROUPED: Record<string, number> = { '': DELIVERY_ACK, read: READ, played: PLAYED }

/** No client makes longer ids. */
const LONGEST_ID = 64

/** How long a vote waits for its poll. */
const POLL_WAIT_MS = 3_000

/** What WhatsApp allows as a username; whatever else stands there is not told. */
const USERNAME = /^[a-z0-9._]{3,35}$/i

type Person = { from: string; phone?: string; lid?: string; group?: string }

/** A person's jid; whoever mentions somebody may write anything in its place. */
const PERSON = /^\d{1,20}(_\d{1,5})?(:\d{1,5})?@(s\.whatsapp\.net|lid)$/

/** A person by both names where both are known: digits of the phone, and the LID. */
async function namesOf(jids: (string | null | undefined)[], sock: WASocket): Promise<{ phone?: string; lid?: string }> {
  const known = jids.filter(jid => typeof jid === 'string')
  const lid = known.find(jid => isLidUser(jid))
  let pn = known.find(jid => isPnUser(jid))
  if (!pn && lid) pn = (await sock.signalRepository.lidMapping.getPNForLID(lid)) ?? undefined
  const phone = pn ? jidDecode(pn)?.user : undefined
  return { ...(phone ? { phone } : {}), ...(lid ? { lid: jidNormalizedUser(lid) } : {}) }
}

/** The author of what somebody else wrote, by the names that the message has. A list's message names it as a group's does. */
function authorOf({
  remoteJid,
  remoteJidAlt,
  participant,
  participantAlt,
}: WAMessageKey): (string | null | undefined)[] {
  if (isJidGroup(remoteJid ?? '')) return [participant, participantAlt]
  return [isJidBroadcast(remoteJid ?? '') ? participant : remoteJid, remoteJidAlt]
}

/** Who wrote it; to whom, for a message of our own. In a group of ours nobody in particular. */
async function personOf(key: WAMessageKey, sock: WASocket): Promise<Person> {
  const group = isJidGroup(key.remoteJid ?? '') ? (key.remoteJid ?? undefined) : undefined
  if (group && key.fromMe) return { from: group, group }
  const jids = authorOf(key)
  return { from: jids.find(jid => jid) ?? '', ...(await namesOf(jids, sock)), ...(group ? { group } : {}) }
}

/** The author of a message by both jids, ourselves included. */
async function bothNames(key: WAMessageKey, sock: WASocket): Promise<Names> {
  const [pn, lid] = [sock.user?.id, sock.user?.lid]
  if (key.fromMe)
    return { ...(pn ? { pn: jidNormalizedUser(pn) } : {}), ...(lid ? { lid: jidNormalizedUser(lid) } : {}) }
  const names = await namesOf(authorOf(key), sock)
  const other =
    names.lid || !names.phone
      ? undefined
      : await sock.signalRepository.lidMapping.getLIDForPN(`${names.phone}@s.whatsapp.net`)
  const known = names.lid ?? other
  return {
    ...(names.phone ? { pn: `${names.phone}@s.whatsapp.net` } : {}),
    ...(known ? { lid: jidNormalizedUser(known) } : {}),
  }
}

const isMe = (jid: string | null | undefined, sock: WASocket): boolean =>
  !!jid && [sock.user?.id, sock.user?.lid].some(own => own && areJidsSameUser(own, jid))

const isPerson = (jid: string | null | undefined): jid is string => PERSON.test(jid ?? '')

/** The context as the server reads it: people by both names. */
async function describe({ quote, mentioned, ...rest }: Context, sock: WASocket): Promise<object> {
  const { jid, ...quoted } = quote ?? { jid: undefined }
  const author = isMe(jid, sock) ? { fromMe: true } : await namesOf([jid].filter(isPerson), sock)
  const known = await Promise.all((mentioned ?? []).filter(isPerson).map(each => namesOf([each], sock)))
  return {
    ...rest,
    ...(quote ? { replyTo: { ...quoted, ...author } } : {}),
    ...(known.length ? { mentions: known } : {}),
  }
}

export class Receiver {
  readonly #events: Events
  readonly #messages: Messages
  readonly #inbox: Inbox
  readonly #undecryptable: Undecryptable
  readonly #log: Log
  readonly #groupNames = new GroupNames()
  readonly #highest = new Bounded(2_000)
  readonly #seen = new Bounded(2_000)
  readonly #awaitedPolls = new Bounded(50)
  /** Usernames of direct messages by chat and id: Baileys reads those of groups and of our own messages only. */
  readonly #usernames = new Bounded(500)
  /** Secrets of messages by their ids, for edits within the quarter of an hour in which WhatsApp allows them. */
  readonly #secrets = new Bounded(2_000)

  constructor(events: Events, messages: Messages, inbox: Inbox, undecryptable: Undecryptable, log: Log) {
    this.#events = events
    this.#messages = messages
    this.#inbox = inbox
    this.#undecryptable = undecryptable
    this.#log = log
  }

  attach(sock: WASocket): void {
    sock.ws.prependListener('CB:message', ({ attrs }: BinaryNode) => {
      if (attrs.sender_username) this.#usernames.set(`${attrs.from}/${attrs.id}`, attrs.sender_username)
    })
    sock.ev.on('messages.upsert', ({ messages }) => {
      for (const message of messages)
        this.#came(message, sock).catch(error => this.#log.error('message.not_read', { error: describeError(error) }))
    })
    sock.ev.on('messages.update', updates => {
      for (const { key, update } of updates) this.#progressed(key, update.status, millisOf(update.messageTimestamp))
    })
    this.#groupNames.attach(sock)
    this.#attachToGroups(sock)
  }

  /** In a group every member sends a receipt, alone or with others in one stanza: the first one counts. */
  #attachToGroups(sock: WASocket): void {
    sock.ev.on('message-receipt.update', updates => {
      for (const { key, receipt } of updates) {
        const at = millisOf(receipt.readTimestamp ?? receipt.receiptTimestamp)
        if (!isMe(receipt.userJid, sock)) this.#progressed(key, receipt.readTimestamp ? READ : DELIVERY_ACK, at)
      }
    })
    sock.ws.on('CB:receipt', (node: BinaryNode) => {
      for (const { attrs, content } of getBinaryNodeChildren(node, 'participants')) {
        const members = Array.isArray(content) ? content.filter(each => !isMe(each.attrs.jid, sock)) : []
        const key = { id: attrs.key ?? '', fromMe: true }
        if (members.length) this.#progressed(key, GROUPED[node.attrs.type ?? ''], millisOf(members[0]?.attrs.t))
      }
    })
  }

  /** Says nothing about the receipts of this message. */
  ignore(whatsappId: string): void {
    this.#highest.set(whatsappId, Number.POSITIVE_INFINITY)
  }

  async #came(message: WAMessage, sock: WASocket): Promise<void> {
    const { key } = message
    const chat = key.remoteJid ?? ''
    if (key.fromMe) this.#progressed(key, message.status, Date.now())
    const content = this.#isTold(key, sock)
      ? (read(message.message, key) ?? (await this.#secretEdit(message, sock)))
      : undefined
    if (!key.id || key.id.length > LONGEST_ID || !content || this.#inbox.isSettled(key.id)) return this.#settled(key)
    // Replayed and delivered again at the same time: the first one is on its way to the file.
    if (this.#seen.has(`${chat}/${key.id}`)) return
    this.#seen.set(`${chat}/${key.id}`, true)
    const secret = secretOf(message.message)
    if (secret?.length) this.#secrets.set(key.id, secret)
    const kept = storable(message.message)
    if (kept) this.#messages.receive({ key, message: kept })
    if (content.kind === 'poll') this.#awaitedPolls.get<() => void>(key.id)?.()
    if (key.fromMe) this.#amendOurs(content)
    const { pushName } = message
    const thumbnail = thumbnailOf(message.message)
    this.#events.emit(key.fromMe ? 'MESSAGE_SENT_ELSEWHERE' : 'MESSAGE_RECEIVED', {
      whatsappId: key.id,
      ...(await personOf(key, sock)),
      ...(await this.#groupNames.of(chat, sock)),
      ...(pushName && !key.fromMe ? { pushName: pushName.slice(0, 512) } : {}),
      ...this.#usernameOf(key),
      ...content,
      ...(thumbnail ? { thumbnail } : {}),
      ...(await this.#voteOf(message, content, sock)),
      ...(await describe(readContext(message.message), sock)),
      at: millisOf(message.messageTimestamp),
    })
    this.#undecryptable.resolved(key)
    this.#settled(key)
    this.#log.info('message.received', { kind: content.kind })
  }

  /**
   * Whether it is a message of a person, also one that the person sent to a whole list. Our own are told too, where they were
   * typed on the phone or another device: only those come in encrypted and so have been in the inbox. What the account writes
   * to itself, or to a list, is nobody's business.
   */
  #isTold({ id, remoteJid, participant, fromMe }: WAMessageKey, sock: WASocket): boolean {
    const chat = remoteJid ?? ''
    if (isJidStatusBroadcast(chat) || isJidNewsletter(chat)) return false
    if (isJidBroadcast(chat)) return !fromMe && !isMe(participant, sock)
    return !fromMe || (!!id && this.#inbox.has(id) && !isMe(chat, sock))
  }

  /** The owner has edited or deleted on the phone what may have been sent from here. */
  #amendOurs(content: Content): void {
    if (content.kind === 'edit') this.#messages.amend(content.target.whatsappId, content.text)
    if (content.kind === 'deletion' && content.target.fromMe) this.#messages.revoke(content.target.whatsappId)
  }

  /** An edit that only the secret of the message opens; nothing where that came before this process, or is another's. */
  async #secretEdit({ key, message }: WAMessage, sock: WASocket): Promise<Content | undefined> {
    const edit = secretEditOf(message)
    const id = edit?.targetMessageKey?.id
    const secret = id ? this.#secrets.get<Uint8Array>(id) : undefined
    if (!edit || !id || !secret) return undefined
    const opened = openEdit(edit, secret, await bothNames(key, sock))
    return opened && readSecretEdit(opened, id, key)
  }

  /** The username of the other person, where WhatsApp tells it. */
  #usernameOf({ remoteJid, id, remoteJidUsername, participantUsername }: WAMessageKey): { username?: string } {
    const told = participantUsername ?? remoteJidUsername ?? this.#usernames.get<string>(`${remoteJid}/${id}`)
    return told && USERNAME.test(told) ? { username: told } : {}
  }

  /** A poll, at once or soon: Baileys may hand over a vote before the poll that came before it. */
  async #pollOf(id: string): Promise<WAMessage | undefined> {
    const came = new Promise<void>(resolve => this.#awaitedPolls.set(id, resolve))
    const known = (): WAMessage | undefined => this.#messages.find(id) ?? this.#messages.findReceived(id)
    const found = known()
    if (!found) await within(POLL_WAIT_MS, came, () => undefined)
    return found ?? known()
  }

  /** What was voted for, if the poll is known here. */
  async #voteOf({ key, message }: WAMessage, content: Content, sock: WASocket): Promise<object> {
    const poll = content.kind === 'vote' ? await this.#pollOf(content.target.whatsappId) : undefined
    if (!poll) return {}
    const vote = normalizeMessageContent(message)?.pollUpdateMessage?.vote
    const options = chosenOptions(vote, poll, await bothNames(poll.key, sock), await bothNames(key, sock))
    return options ? { vote: { options } } : {}
  }

  /** The message has its event, or needs none: it leaves the inbox together with the event's arrival in the file. */
  #settled({ id }: WAMessageKey): void {
    if (id && this.#inbox.has(id)) this.#events.alongside(() => this.#inbox.settle(id))
  }

  /** A quick receipt comes merged into our own message, a slow one as an update: both end here, each step once. */
  #progressed(key: WAMessageKey, status: number | null | undefined, at: number): void {
    const name = STATUS[status ?? -1]
    if (!key.fromMe || !key.id || !name || !status) return
    if ((this.#highest.get<number>(key.id) ?? 0) >= status) return
    this.#highest.set(key.id, status)
    this.#events.emit('MESSAGE_STATUS', { whatsappId: key.id, status: name, at })
  }
}
