// Acts besides sending, on the server's request: reactions, edits, deletions, read marks, typing, look-ups, blocks.
import {
  type AnyMessageContent,
  generateMessageIDV2,
  generateWAMessage,
  getBinaryNodeChild,
  isJidGroup,
  isLidUser,
  jidDecode,
  jidNormalizedUser,
  S_WHATSAPP_NET,
  type WAMessageKey,
  type WASocket,
} from 'baileys'
import type { Presence } from '../connection/presence.ts'
import { within } from '../connection/timing.ts'
import { baileysLogger, type Log } from '../log.ts'
import type { Command } from '../server/outbox.ts'
import type { Messages } from '../store/message-store.ts'
import { type Address, type Addressing, otherName } from './addressing.ts'
import { uploadOf } from './media-upload.ts'
import type { Proofs } from './message-acks.ts'

const LOOKUP_MS = 15_000
/** The attribute of the stanza by which WhatsApp and phones know an edit and a deletion, of one's own or as an admin. */
const EDIT = '1'
const DELETED = '7'
const DELETED_BY_ADMIN = '8'

/** Its message is the code that the server gets. */
export class ActError extends Error {}

export type ActParts = {
  addressing: Addressing
  proofs: Proofs
  messages: Messages
  presence: Presence
  /** Says nothing about the receipts of what is no message to the server. */
  ignoreReceipts: (whatsappId: string) => void
  ackTimeoutMs: number
  log: Log
}

const STATES = { typing: 'composing', recording: 'recording', paused: 'paused' } as const

export class Acts {
  readonly #parts: ActParts

  constructor(parts: ActParts) {
    this.#parts = parts
  }

  /** The answer for the server; undefined for a command that is not ours. */
  async run(command: Command, sock: WASocket): Promise<object | undefined> {
    if (command.kind === 'react') return this.#react(command, sock)
    if (command.kind === 'edit') return this.#edit(command, sock)
    if (command.kind === 'delete') return this.#delete(command, sock)
    if (command.kind === 'mark_read') return this.#markRead(command, sock)
    if (command.kind === 'typing') return this.#type(command, sock)
    if (command.kind === 'check_number') return this.#checkNumber(command, sock)
    if (command.kind === 'find_username') return this.#findUsername(command, sock)
    if (command.kind === 'profile_picture') return this.#picture(command, sock)
    if (command.kind === 'block' || command.kind === 'unblock') return this.#block(command, command.kind, sock)
    return undefined
  }

  async #react(command: Command, sock: WASocket): Promise<object> {
    const address = await this.#address(command, sock)
    return this.#send(sock, address, { react: { key: keyOf(command, address), text: command.text ?? '' } })
  }

  async #edit(command: Command, sock: WASocket): Promise<object> {
    const address = await this.#address(command, sock)
    const key = { ...keyOf(command, address), fromMe: true }
    const part = this.#parts.messages.find(command.whatsappId ?? '')?.message
    const text = command.text ?? ''
    // A caption is edited as the message that it belongs to, with the file as it was.
    for (const name of ['imageMessage', 'videoMessage', 'documentMessage'] as const) {
      const file = part?.[name]
      if (!file) continue
      const composed = {
        protocolMessage: {
          key,
          type: 14,
          timestampMs: Date.now(),
          editedMessage: { [name]: { ...file, caption: text } },
        },
      }
      await this.#relay(sock, address, generateMessageIDV2(sock.user?.id), composed, EDIT)
      this.#parts.messages.amend(command.whatsappId ?? '', text)
      return {}
    }
    await this.#send(sock, address, { text, linkPreview: null, edit: key }, EDIT)
    this.#parts.messages.amend(command.whatsappId ?? '', text)
    return {}
  }

  async #delete(command: Command, sock: WASocket): Promise<object> {
    const address = await this.#address(command, sock)
    const key = keyOf(command, address)
    await this.#send(sock, address, { delete: key }, key.fromMe ? DELETED : DELETED_BY_ADMIN)
    if (key.fromMe) this.#parts.messages.revoke(command.whatsappId ?? '')
    return {}
  }

  async #markRead(command: Command, sock: WASocket): Promise<object> {
    const address = await this.#address(command, sock)
    const others = (command.others ?? '').split(' ').filter(id => id)
    await sock.readMessages([
      keyOf(command, address),
      ...others.map(id => keyOf({ ...command, whatsappId: id }, address)),
    ])
    return {}
  }

  async #type(command: Command, sock: WASocket): Promise<object> {
    const { presence } = this.#parts
    const { jid } = await this.#address(command, sock)
    await presence.begin()
    await sock.sendPresenceUpdate(STATES[(command.text ?? 'typing') as keyof typeof STATES] ?? 'composing', jid)
    presence.end()
    return {}
  }

  async #checkNumber({ to }: Command, sock: WASocket): Promise<object> {
    const found = await within(LOOKUP_MS, sock.onWhatsApp(to ?? ''), () => undefined)
    if (!found) throw new ActError('NO_ANSWER')
    const exists = found.some(entry => entry.exists)
    const jid = found.find(entry => entry.exists)?.jid ?? ''
    const lid = isLidUser(jid) ? jid : exists ? await sock.signalRepository.lidMapping.getLIDForPN(jid) : undefined
    return { exists, ...(lid ? { lid: jidDecode(lid)?.user } : {}) }
  }

  /** Whose a username is. Baileys drops an answer without a name, which is how WhatsApp asks for the key of the person. */
  async #findUsername({ to, text }: Command, sock: WASocket): Promise<object> {
    const contact = { tag: 'contact', attrs: { username: to ?? '', ...(text ? { pin: text } : {}) } }
    const asked = { sid: sock.generateMessageTag(), mode: 'query', context: 'interactive', last: 'true', index: '0' }
    const parts = [
      { tag: 'query', attrs: {}, content: [{ tag: 'contact', attrs: {} }] },
      { tag: 'list', attrs: {}, content: [{ tag: 'user', attrs: {}, content: [contact] }] },
    ]
    const question = { tag: 'usync', attrs: asked, content: parts }
    const attrs = { to: S_WHATSAPP_NET, type: 'get', xmlns: 'usync' }
    const answer = await within(LOOKUP_MS, sock.query({ tag: 'iq', attrs, content: [question] }), () => undefined)
    const list = getBinaryNodeChild(getBinaryNodeChild(answer, 'usync'), 'list')
    const user = getBinaryNodeChild(list, 'user')
    const found = getBinaryNodeChild(user, 'contact')
    if (!user || !found || getBinaryNodeChild(found, 'error')) throw new ActError('NO_ANSWER')
    if (found.attrs.type === 'out') throw new ActError('UNKNOWN_USERNAME')
    const jid = user.attrs.jid
    if (!jid) throw new ActError('USERNAME_KEY_NEEDED')
    const lid = isLidUser(jid) ? jid : await sock.signalRepository.lidMapping.getLIDForPN(jid)
    return lid ? { lid: jidDecode(lid)?.user } : {}
  }

  async #picture(command: Command, sock: WASocket): Promise<object> {
    const { jid } = await this.#address(command, sock)
    try {
      const url = await sock.profilePictureUrl(jid, 'image', LOOKUP_MS)
      if (url) return { url }
    } catch (error) {
      const code = (error as { output?: { statusCode?: number } }).output?.statusCode ?? 0
      if (code === 408) throw new ActError('NO_ANSWER')
    }
    throw new ActError('NOT_SHOWN')
  }

  async #block(command: Command, action: 'block' | 'unblock', sock: WASocket): Promise<object> {
    const { jid } = await this.#address(command, sock)
    await sock.updateBlockStatus(jid, action)
    return {}
  }

  async #address({ to }: Command, sock: WASocket): Promise<Address> {
    if (!to) throw new ActError('INVALID_ACT')
    const address = await this.#parts.addressing.resolve(sock, to.includes('@') ? to : `${to}@s.whatsapp.net`)
    if (!address) throw new ActError('UNKNOWN_CHAT')
    return address
  }

  async #send(sock: WASocket, address: Address, content: AnyMessageContent, edit?: string): Promise<object> {
    const { addressing, log } = this.#parts
    const id = generateMessageIDV2(sock.user?.id)
    const composed = await generateWAMessage(address.jid, content, {
      logger: baileysLogger(log),
      userJid: addressing.self ?? '',
      upload: uploadOf(sock),
      messageId: id,
    })
    return this.#relay(sock, address, id, composed.message ?? {}, edit)
  }

  /** Writes it and waits for WhatsApp's ack. It is remembered first: a phone that cannot decrypt it asks for it again at once. */
  async #relay(
    sock: WASocket,
    address: Address,
    id: string,
    message: NonNullable<Parameters<WASocket['relayMessage']>[1]>,
    edit?: string,
  ): Promise<object> {
    const { proofs, messages, ignoreReceipts, ackTimeoutMs } = this.#parts
    const { jid } = address
    messages.remember({ key: { remoteJid: jid, fromMe: true, id }, message })
    ignoreReceipts(id)
    const additionalAttributes = { ...(edit ? { edit } : {}), ...otherName(address) }
    const { proof, cancel } = proofs.expect(id)
    try {
      await sock.relayMessage(jid, message, { messageId: id, additionalAttributes })
      const found = await within(ackTimeoutMs, proof, () => undefined)
      if (!found) throw new ActError('NO_ANSWER')
      if (found.error) throw new ActError(`WHATSAPP_${found.error}`)
      return {}
    } finally {
      cancel()
    }
  }
}

/** The message that is meant, from our view: in a group with its author, unless that is us. */
function keyOf({ whatsappId, fromMe, phone, lid }: Command, { jid }: Address): WAMessageKey {
  if (!whatsappId) throw new ActError('INVALID_ACT')
  const author = lid ? `${lid}@lid` : phone ? `${phone}@s.whatsapp.net` : undefined
  const inGroup = isJidGroup(jid) && !fromMe && author
  return {
    remoteJid: jid,
    fromMe: !!fromMe,
    id: whatsappId,
    ...(inGroup ? { participant: jidNormalizedUser(author) } : {}),
  }
}
