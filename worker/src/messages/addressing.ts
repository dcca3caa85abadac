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
import { within } from '../connection/timing.ts'
import { describeError, type Log } from '../log.ts'
import type { Auth } from '../store/auth.ts'
import { Bounded } from '../store/bounded-cache.ts'
import { listenToDecoding, makeToken } from './first-contact-token.ts'
import type { LinkHistory } from './link-history.ts'

/** AB properties of WhatsApp that concern us: the move to LIDs, and tokens on messages. */
const MOVED_TO_LIDS = '9435'
const TOKENS_ON_MESSAGES = '10518'
const TOKENS_TO_LIDS = '14303'
const FIRST_CONTACT_TOKENS = '24941'
const DAY_MS = 24 * 60 * 60_000
/** How long a message waits for the first answer after a start, and a refused one for a fresh answer. */
const ANSWER_MS = 10_000
/** A token of acquaintance is valid in the week of its day and in the three that follow. */
const WEEK_S = 7 * 24 * 60 * 60
const WEEKS_VALID = 4
/** How many people are remembered of those who wrote under a LID. */
const MOST_WRITERS = 1_000

/** Where a message goes: the name on the wire, and both names of a person where they are known. */
export type Address = { jid: string; phone?: string; lid?: string }

/** Of a person addressed by LID WhatsApp wants the number beside it. */
export const otherName = ({ jid, phone }: Address): Record<string, string> =>
  isLidUser(jid) && phone ? { peer_recipient_pn: phone } : {}

type OwnCreds = AuthenticationCreds & { movedToLids?: boolean; firstContactSalt?: Uint8Array }

const isOn = (value: string | undefined): boolean => value === '1' || value === 'true'

const weekOf = (seconds: number): number => Math.floor(seconds / WEEK_S)

/** Whether a token that was given at this time is still one. */
const isValid = (givenAt: string | undefined): boolean =>
  weekOf(Number(givenAt)) > weekOf(Date.now() / 1000) - WEEKS_VALID

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

/** Whether the phone's list of LIDs says when the account has moved to them. */
export function hasMoved(payload: Uint8Array | null | undefined): boolean {
  try {
    return !!payload && Number(proto.LIDMigrationMappingSyncPayload.decode(payload).chatDbMigrationTimestamp ?? 0) > 0
  } catch {
    return false
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
  /** Who has written to us under a LID: only accounts that have moved hear from people whose number they know in that way. */
  readonly #writers = new Bounded(MOST_WRITERS)
  #asked: Promise<void> = Promise.resolve()
  #askedAt = Number.NEGATIVE_INFINITY
  properties = new Map<string, string>()

  constructor(auth: Auth, linkHistory: LinkHistory, log: Log) {
    this.#auth = auth
    this.#log = log
    listenToDecoding({
      moved: () => this.moved('history'),
      history: { textsPerChat: linkHistory.textsPerChat, came: history => linkHistory.came(history) },
      salt: (salt, isNews) => {
        // Taken back it is empty, and what the history says of it is older.
        if (this.#creds.firstContactSalt && !isNews) return
        this.#creds.firstContactSalt = salt ?? new Uint8Array()
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
    return this.ownAddress?.jid
  }

  get ownAddress(): Address | undefined {
    const me = this.#creds.me
    if (!me) return undefined
    const phone = jidNormalizedUser(me.id)
    return { jid: this.byLid ? jidNormalizedUser(me.lid) : phone, phone }
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
        const protocol = message?.protocolMessage
        if (!key.fromMe && isLidUser(key.remoteJid ?? ''))
          this.#writers.set(jidNormalizedUser(key.remoteJid ?? ''), true)
        if (key.fromMe && protocol?.type === proto.Message.ProtocolMessage.Type.LID_MIGRATION_MAPPING_SYNC) {
          if (hasMoved(protocol.lidMigrationMappingSyncMessage?.encodedMappingPayload)) this.moved('phone')
          this.#asked = this.#ask(sock)
        }
      }
    })
  }

  /** A session that was linked by an older worker has no flag, so WhatsApp is asked, without the hash of what it said before. */
  opened(sock: WASocket): void {
    if (Date.now() - this.#askedAt > DAY_MS) this.#asked = this.#ask(sock)
  }

  /** The account has moved to LIDs; it never moves back. */
  moved(source: 'pairing' | 'properties' | 'history' | 'phone' | 'people'): void {
    if (this.#creds.movedToLids) return
    this.#creds.movedToLids = true
    this.#auth.saveCreds()
    this.#log.info('addressing.moved_to_lids', { source })
  }

  /** The address by the other kind of name, after WhatsApp has refused this one; nothing if there is no reason to try it. */
  async other(sock: WASocket, address: Address, code: string): Promise<Address | undefined> {
    const { jid, phone, lid } = address
    const isNumber = isPnUser(jid) === true
    if (!(code === '400' || (code === '463' && isNumber)) || (isNumber ? this.byLid : !isLidUser(jid))) return undefined
    this.#asked = this.#ask(sock)
    await this.#asked
    if (!isNumber) return this.#byNumber(phone, lid)
    if (code === '463' && lid && this.#writers.get(lid)) this.moved('people')
    return this.byLid ? this.resolve(sock, jid) : undefined
  }

  /** A LID was refused. Where WhatsApp says that the account has not moved to them, what told us so was wrong. */
  #byNumber(phone: string | undefined, lid: string | undefined): Address | undefined {
    const told = this.properties.get(MOVED_TO_LIDS)
    if (this.#creds.movedToLids && told !== undefined && !isOn(told)) {
      this.#creds.movedToLids = false
      this.#auth.saveCreds()
      this.#log.warn('addressing.not_moved_to_lids')
    }
    return phone ? { jid: phone, phone, ...(lid ? { lid } : {}) } : undefined
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
    if (!salt?.length || !address.lid || isOff || address.jid === this.self) return []
    const given = (await this.#auth.keys.get('tctoken', [address.lid]))[address.lid]
    // Baileys drops one that has expired when it sends, so there is none then either.
    return given?.token?.length && isValid(given.timestamp) ? [] : [makeToken(salt, address.lid)]
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
