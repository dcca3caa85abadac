// By which names this account's one-to-one chats go: phone numbers, or LIDs once WhatsApp has moved it to them. A message
// with names of the wrong kind is refused: 463 for a number from a moved account, 400 for a LID from one that has not.
import {
  type AuthenticationCreds,
  type BinaryNode,
  getBinaryNodeChild,
  getBinaryNodeChildBuffer,
  getBinaryNodeChildren,
  isLidUser,
  isPnUser,
  jidDecode,
  jidNormalizedUser,
  proto,
  S_WHATSAPP_NET,
  type WASocket,
} from 'baileys'
import type { Auth } from './auth.ts'
import type { Bounded } from './bounded-cache.ts'
import { listenToDecoding, makeToken } from './first-contact-token.ts'
import { describeError, type Log } from './log.ts'
import { within } from './timing.ts'

/** AB properties of WhatsApp that concern us: the move to LIDs, and tokens on messages. */
const MOVED_TO_LIDS = '9435'
const TOKENS_ON_MESSAGES = '10518'
const TOKENS_TO_LIDS = '14303'
const FIRST_CONTACT_TOKENS = '24941'
const DAY_MS = 24 * 60 * 60_000
/** How long a message waits for the first answer after a start, and a refused one for a fresh answer. */
const ANSWER_MS = 10_000

/** Where a message goes: the name on the wire, and both names of a person where they are known. */
export type Address = { jid: string; phone?: string; lid?: string }

type OwnCreds = AuthenticationCreds & { movedToLids?: boolean; firstContactSalt?: Uint8Array }

const isOn = (value: string | undefined): boolean => value === '1' || value === 'true'

/** What `pair-success` says of the account; nothing if it is absent or malformed. */
export function readPairing(stanza: BinaryNode): boolean | undefined {
  const success = getBinaryNodeChild(stanza, 'pair-success')
  const bytes = success && getBinaryNodeChildBuffer(success, 'client-props')
  if (!(bytes instanceof Uint8Array)) return undefined
  try {
    return proto.ClientPairingProps.decode(bytes).isChatDbLidMigrated ?? undefined
  } catch {
    return undefined
  }
}

export function readProperties(answer: BinaryNode): Map<string, string> {
  const props = getBinaryNodeChild(answer, 'props')
  return new Map(
    getBinaryNodeChildren(props, 'prop').map(({ attrs }) => [attrs.config_code ?? '', attrs.config_value ?? '']),
  )
}

export class Addressing {
  readonly #auth: Auth
  readonly #log: Log
  #asked: Promise<void> = Promise.resolve()
  #askedAt = Number.NEGATIVE_INFINITY
  properties = new Map<string, string>()

  constructor(auth: Auth, log: Log) {
    this.#auth = auth
    this.#log = log
    listenToDecoding({
      moved: () => this.moved('history'),
      salt: (salt, isNews) => {
        if (this.#creds.firstContactSalt && !isNews) return
        this.#creds.firstContactSalt = salt
        this.#auth.saveCreds()
      },
    })
  }

  get #creds(): OwnCreds {
    return this.#auth.creds
  }

  get byLid(): boolean {
    return this.#creds.movedToLids === true && !!this.#creds.me?.lid
  }

  /** Our own account, as a chat. */
  get self(): string | undefined {
    const me = this.#creds.me
    return me && jidNormalizedUser(this.byLid ? me.lid : me.id)
  }

  attach(sock: WASocket): void {
    sock.ws.on('CB:iq,,pair-success', (stanza: BinaryNode) => {
      const moved = readPairing(stanza)
      if (moved) this.moved('pairing')
      // Another number may be linked now: what the last one was counts no more.
      else if (moved === false) this.#creds.movedToLids = false
    })
    sock.ev.on('messages.upsert', ({ messages }) => {
      for (const { key, message } of messages) {
        const type = message?.protocolMessage?.type
        if (key.fromMe && type === proto.Message.ProtocolMessage.Type.LID_MIGRATION_MAPPING_SYNC)
          this.#asked = this.#ask(sock)
      }
    })
  }

  /** A session that was linked by an older worker has no flag, so WhatsApp is asked, without the hash of what it said before. */
  opened(sock: WASocket): void {
    if (Date.now() - this.#askedAt > DAY_MS) this.#asked = this.#ask(sock)
  }

  /** The account has moved to LIDs; it never moves back. */
  moved(source: 'pairing' | 'properties' | 'history'): void {
    if (this.#creds.movedToLids) return
    this.#creds.movedToLids = true
    this.#auth.saveCreds()
    this.#log.info('addressing.moved_to_lids', { source })
  }

  /** Asks anew, after WhatsApp has refused a name. */
  async refresh(sock: WASocket): Promise<void> {
    this.#asked = this.#ask(sock)
    await this.#asked
  }

  /** The address of a chat in the names of this account; nothing if WhatsApp does not tell the LID that it takes. */
  async resolve(sock: WASocket, chat: string): Promise<Address | undefined> {
    if (!isPnUser(chat) && !isLidUser(chat)) return { jid: chat }
    if (!this.byLid) await within(ANSWER_MS, this.#asked, () => undefined)
    const { lidMapping } = sock.signalRepository
    const found = isLidUser(chat) ? await lidMapping.getPNForLID(chat) : await lidMapping.getLIDForPN(chat)
    const [known, other] = [jidNormalizedUser(chat), found ? jidNormalizedUser(found) : undefined]
    const [phone, lid] = isLidUser(chat) ? [other, known] : [known, other]
    const names = { ...(phone ? { phone } : {}), ...(lid ? { lid } : {}) }
    if (this.byLid) return lid ? { jid: lid, ...names } : undefined
    // Of a person without a known number there is only the LID; WhatsApp may refuse it, and there is no other way.
    return { jid: phone ?? known, ...names }
  }

  /** Drops what is stored of a person, because the number belongs to another account now. */
  async forget(sock: WASocket, { phone, lid }: Address): Promise<void> {
    const number = phone && jidDecode(phone)?.user
    const hidden = lid && jidDecode(lid)?.user
    const rows = { ...(number ? { [number]: null } : {}), ...(hidden ? { [`${hidden}_reverse`]: null } : {}) }
    await this.#auth.keys.set({ 'lid-mapping': rows } as Parameters<Auth['keys']['set']>[0])
    const { mappingCache } = sock.signalRepository.lidMapping as unknown as { mappingCache: Bounded }
    mappingCache.clear()
  }

  /** The token for somebody who has given us none, as official clients send it. */
  async firstContactToken(address: Address): Promise<BinaryNode[]> {
    const salt = this.#creds.firstContactSalt
    const isOff = this.properties.has(FIRST_CONTACT_TOKENS) && !isOn(this.properties.get(FIRST_CONTACT_TOKENS))
    if (!salt || !address.lid || isOff || address.jid === this.self) return []
    const given = (await this.#auth.keys.get('tctoken', [address.lid]))[address.lid]
    return given?.token?.length ? [] : [makeToken(salt, address.lid)]
  }

  async #ask(sock: WASocket): Promise<void> {
    this.#askedAt = Date.now()
    try {
      const question = { to: S_WHATSAPP_NET, xmlns: 'abt', type: 'get' }
      const content = [{ tag: 'props', attrs: { protocol: '1' } }]
      const answer = await sock.query({ tag: 'iq', attrs: question, content }, ANSWER_MS)
      this.properties = readProperties(answer)
    } catch (error) {
      this.#askedAt = Number.NEGATIVE_INFINITY
      this.#log.warn('addressing.not_asked', { error: describeError(error) })
      return
    }
    if (isOn(this.properties.get(MOVED_TO_LIDS))) this.moved('properties')
    // Baileys asks with a hash, gets the changes alone, and otherwise runs on its defaults after a restart.
    const tokens = this.properties.get(TOKENS_ON_MESSAGES)
    if (tokens !== undefined) sock.serverProps.privacyTokenOn1to1 = isOn(tokens)
    const toLids = this.properties.get(TOKENS_TO_LIDS)
    if (toLids !== undefined) sock.serverProps.lidTrustedTokenIssueToLid = isOn(toLids)
  }
}
