// Linking with the account's passkey, where WhatsApp asks for it: the request, the person's assertion, the phone's continuation,
// and our encrypted pairing request. The person signs at his own screen; this side never sees the key.
import { createHmac, randomBytes } from 'node:crypto'
import {
  aesEncryptGCM,
  type BinaryNode,
  bytesToCrockford,
  Curve,
  getBinaryNodeChild,
  getBinaryNodeChildBuffer,
  hkdf,
  proto,
  S_WHATSAPP_NET,
  sha256,
  type WASocket,
} from 'baileys'
import { describeError, type Log } from '../log.ts'
import type { Events } from '../server/events.ts'
import type { Auth } from '../store/auth.ts'

const QUERY_MS = 30_000
const OPTIONS_LIFE_MS = 600_000
const HANDOFF_LIFE_MS = 300_000
/** How long WhatsApp's own client waits for the person, and for the pairing; for the phone, the settings say. */
const STEP_MS = 120_000
const PARSING_ERROR = '487'

/** What must be done after a failure: sign the same request again, sign a new one, or begin with a new code. */
type Retry = 'same' | 'new' | 'restart'
type Stage = 'idle' | 'required' | 'sending' | 'sent' | 'confirm' | 'pairing'

/** Whether people may answer with a passkey here, as which browser, and how long their phone may take after that. */
export type PasskeyChoice = { isOn: boolean; browser: string | undefined; phoneMs: number }

export type Assertion = {
  id: string
  rawId: string
  type: string
  response: { clientDataJSON: string; authenticatorData: string; signature: string; userHandle?: string | null }
}

/** Whether WhatsApp answered that it does not want what we sent; a timeout or an error of its own is none. */
function isRefusal(error: unknown): boolean {
  const code = (error as { data?: unknown } | undefined)?.data
  return typeof code === 'number' && code >= 400 && code < 500
}

/** The number under which Baileys registers this device. */
export const platformOf = (browser: string | undefined): number =>
  (proto.DeviceProps.PlatformType as unknown as Record<string, number>)[(browser ?? '').toUpperCase()] ??
  proto.DeviceProps.PlatformType.CHROME

export const handoffKey = (secret: Uint8Array): Buffer =>
  Buffer.from(hkdf(secret, 32, { info: 'shortcake-passkey-handoff-v1' }))

export function identityBytes(publicKey: Uint8Array, deviceType: number, ref: string): Uint8Array {
  return proto.CompanionEphemeralIdentity.encode({ publicKey, deviceType, ref }).finish()
}

export function prologuePayload(identity: Uint8Array, nonce: Uint8Array): Uint8Array {
  const hash = sha256(Buffer.concat([identity, nonce]))
  return proto.ProloguePayload.encode({ companionEphemeralIdentity: identity, commitment: { hash } }).finish()
}

/** The code that the phone shows too, for the case that a person has to compare. */
export function codeOf(companionNonce: Uint8Array, primaryKey: Uint8Array, primaryNonce: Uint8Array): string {
  const mixed = sha256(Buffer.concat([companionNonce, primaryKey]))
  const bytes = Buffer.from(primaryNonce.subarray(0, 5).map((byte, index) => byte ^ (mixed[index] ?? 0)))
  const letters = bytesToCrockford(bytes)
  return `${letters.slice(0, 4)}-${letters.slice(4)}`
}

/** The readable text is the salt and not the info, a classic mistake. */
export const pairingKey = (shared: Uint8Array, deviceType: number, ref: string): Buffer =>
  Buffer.from(
    hkdf(shared, 32, {
      salt: Buffer.from(`Companion Pairing ${deviceType} with ref ${ref}`),
      info: 'Pairing Information Encryption Key',
    }),
  )

/** The phone's part of the ceremony; nothing if there is none, or if it cannot be decoded. */
function readPrimary(node: BinaryNode): proto.IPrimaryEphemeralIdentity | undefined {
  const bytes = getBinaryNodeChildBuffer(node, 'primary_ephemeral_identity')
  try {
    return bytes instanceof Uint8Array ? proto.PrimaryEphemeralIdentity.decode(bytes) : undefined
  } catch {
    return undefined
  }
}

export class Passkey {
  readonly #sock: WASocket
  readonly #auth: Auth
  readonly #events: Events
  readonly #log: Log
  readonly #deviceType: number
  readonly #phoneMs: number
  #stage: Stage = 'idle'
  #options: { text: string; expiresAt: number } | undefined
  #handoff: { key: Buffer; until: number } | undefined
  #secret = ''
  #ref = ''
  #isProven = false
  #code = ''
  #key = Curve.generateKeyPair()
  #nonce = randomBytes(32)
  #pairing: Uint8Array | undefined
  #timer: NodeJS.Timeout | undefined
  /** The phone's part, if it came in one breath with WhatsApp's answer to ours. */
  #early: BinaryNode | undefined

  constructor(
    sock: WASocket,
    auth: Auth,
    events: Events,
    log: Log,
    { browser, phoneMs }: Pick<PasskeyChoice, 'browser' | 'phoneMs'>,
  ) {
    this.#sock = sock
    this.#auth = auth
    this.#events = events
    this.#log = log
    this.#deviceType = platformOf(browser)
    this.#phoneMs = phoneMs
  }

  get isRunning(): boolean {
    return this.#stage !== 'idle'
  }

  /** WhatsApp asks for the passkey. A second request during the ceremony brings new options and nothing else. */
  async requested(node: BinaryNode): Promise<void> {
    const isPastPrologue = this.#stage === 'sending' || this.#stage === 'sent' || this.#stage === 'confirm'
    if (this.#stage === 'pairing') return
    if (this.#stage === 'idle') this.#rotateSecret()
    const given = getBinaryNodeChildBuffer(node, 'passkey_request_options')
    try {
      const bytes = given instanceof Uint8Array && given.length ? given : await this.#fetchOptions()
      this.#options = { text: Buffer.from(bytes).toString('utf8'), expiresAt: Date.now() + OPTIONS_LIFE_MS }
    } catch (error) {
      return this.#fail('server_error', 'restart', error)
    }
    if (!isPastPrologue) this.#ask()
  }

  /** Sends the person's assertion. Rejects with a code if it cannot be sent; whether WhatsApp takes it is told by events. */
  async submit(assertion: Assertion): Promise<void> {
    if (this.#stage !== 'required') throw new Error('NO_PASSKEY_ASKED')
    if (!this.#options || Date.now() > this.#options.expiresAt) throw new Error('PASSKEY_EXPIRED')
    this.#stage = 'sending'
    this.#early = undefined
    try {
      await this.#sendPrologue(assertion)
    } catch (error) {
      return this.#refused(error)
    }
    this.#enter('sent')
    this.#tell({ stage: 'sent', expiresAt: Date.now() + this.#phoneMs })
    this.#expect('no_answer', this.#phoneMs)
    if (this.#early) await this.continued(this.#early)
  }

  /** The person says that the phone shows the same code. */
  async confirm(): Promise<void> {
    if (this.#stage !== 'confirm') throw new Error('NOTHING_TO_CONFIRM')
    await this.#pair()
  }

  /** The phone's part. Whatever is malformed, or comes at another time, does not get on. */
  async continued(node: BinaryNode): Promise<void> {
    if (this.#stage === 'sending') this.#early = node
    if (this.#stage !== 'sent') return
    const primary = readPrimary(node)
    if (primary?.publicKey?.length !== 32 || primary.nonce?.length !== 32) {
      const attrs = { class: 'notification', id: node.attrs.id ?? '', to: S_WHATSAPP_NET, error: PARSING_ERROR }
      await this.#sock.sendNode({ tag: 'ack', attrs }).catch(() => undefined)
      return this.#fail('server_error', 'restart')
    }
    try {
      await this.#query('set', { tag: 'companion_nonce', attrs: {}, content: this.#nonce })
    } catch (error) {
      return this.#fail('server_error', 'restart', error)
    }
    const shared = Curve.sharedKey(this.#key.private, primary.publicKey)
    this.#pairing = this.#sealPairing(pairingKey(shared, this.#deviceType, this.#ref))
    this.#code = codeOf(this.#nonce, primary.publicKey, primary.nonce)
    this.#compare()
    if (this.#isProven) await this.#pair()
  }

  /** WhatsApp's pairing was not signed for this device. */
  misPaired(): void {
    this.#fail('bad_pairing', 'restart')
  }

  /** The connection has ended, or the device is linked. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#stage = 'idle'
  }

  #enter(stage: Stage): void {
    this.#stage = stage
    clearTimeout(this.#timer)
  }

  /** Shows the code that the phone shows too; without a proof nothing goes on before a person has compared them. */
  #compare(): void {
    this.#enter('confirm')
    this.#tell({ stage: 'confirm', code: this.#code, auto: this.#isProven, expiresAt: Date.now() + STEP_MS })
    this.#expect('timeout')
  }

  /** The old secret is known to the phone that read our code: what is signed with it shows that we are the one it scanned. */
  #rotateSecret(): void {
    const { creds } = this.#auth
    const old = Buffer.from(creds.advSecretKey, 'base64')
    if (old.length === 32) this.#handoff = { key: handoffKey(old), until: Date.now() + HANDOFF_LIFE_MS }
    this.#secret = randomBytes(32).toString('base64')
    this.#keepSecret()
  }

  /** Not by an event of Baileys, which would send a presence before the login; a repeated pairing step may have replaced it. */
  #keepSecret(): void {
    this.#auth.creds.advSecretKey = this.#secret
    this.#auth.saveCreds()
  }

  #ask(): void {
    this.#enter('required')
    this.#log.info('linking.passkey_required')
    this.#tell({ stage: 'required', options: this.#options?.text, expiresAt: this.#options?.expiresAt })
  }

  async #fetchOptions(): Promise<Uint8Array> {
    const answer = await this.#query('get', { tag: 'passkey_request_options', attrs: {} })
    const bytes = getBinaryNodeChildBuffer(answer, 'passkey_request_options')
    if (!(bytes instanceof Uint8Array)) throw new Error('no options')
    return bytes
  }

  async #sendPrologue(assertion: Assertion): Promise<void> {
    const answer = await this.#query('get', { tag: 'ref', attrs: {} })
    const ref = getBinaryNodeChild(answer, 'ref')?.content
    this.#ref = Buffer.from(ref instanceof Uint8Array ? ref : String(ref ?? '')).toString('utf8')
    this.#key = Curve.generateKeyPair()
    this.#nonce = randomBytes(32)
    const payload = prologuePayload(identityBytes(this.#key.public, this.#deviceType, this.#ref), this.#nonce)
    const handoff = this.#handoff && Date.now() < this.#handoff.until ? this.#handoff.key : undefined
    this.#isProven = handoff !== undefined
    const part = (tag: string, content: Uint8Array): BinaryNode => ({ tag, attrs: {}, content })
    await this.#query('set', {
      tag: 'passkey_prologue',
      attrs: {},
      content: [
        part('credential_id', Buffer.from(assertion.rawId, 'base64url')),
        part('webauthn_assertion', Buffer.from(JSON.stringify(assertion))),
        part('prologue_payload', payload),
        ...(handoff ? [part('pairing_handoff_proof', createHmac('sha256', handoff).update(payload).digest())] : []),
      ],
    })
  }

  /** WhatsApp did not take the assertion: it is signed once more, for a new request, and then the codes are compared. */
  async #refused(error: unknown): Promise<void> {
    this.#handoff = undefined
    this.#options = undefined
    this.#log.warn('linking.passkey_refused', { error: describeError(error) })
    if (!this.#sock.ws.isOpen) return this.#fail('socket_closed', 'restart', error)
    try {
      const bytes = await this.#fetchOptions()
      this.#options = { text: Buffer.from(bytes).toString('utf8'), expiresAt: Date.now() + OPTIONS_LIFE_MS }
    } catch (failure) {
      return this.#fail('rejected', 'restart', failure)
    }
    this.#tell({ stage: 'failed', reason: 'rejected', retry: 'new' })
    this.#ask()
  }

  #sealPairing(key: Uint8Array): Uint8Array {
    const { noiseKey, signedIdentityKey } = this.#auth.creds
    const request = proto.PairingRequest.encode({
      companionPublicKey: noiseKey.public,
      companionIdentityKey: signedIdentityKey.public,
      advSecret: Buffer.from(this.#secret, 'base64'),
    }).finish()
    const iv = randomBytes(12)
    const encryptedPayload = aesEncryptGCM(request, key, iv, Buffer.alloc(0))
    return proto.EncryptedPairingRequest.encode({ encryptedPayload, iv }).finish()
  }

  async #pair(): Promise<void> {
    if (!this.#pairing) return
    this.#enter('pairing')
    this.#tell({ stage: 'pairing' })
    this.#keepSecret() // before it is sent: the answer may bring the pairing in the same breath
    try {
      await this.#query('set', { tag: 'encrypted_pairing_request', attrs: {}, content: this.#pairing })
      this.#expect('timeout')
    } catch (error) {
      if (!this.#isProven || !isRefusal(error)) return this.#fail('server_error', 'restart', error)
      // Our proof is not enough for this phone: its owner compares the codes.
      this.#isProven = false
      this.#compare()
    }
  }

  #query(type: 'get' | 'set', content: BinaryNode): Promise<BinaryNode> {
    return this.#sock.query(
      { tag: 'iq', attrs: { to: S_WHATSAPP_NET, type, xmlns: 'md' }, content: [content] },
      QUERY_MS,
    )
  }

  #expect(reason: string, ms = STEP_MS): void {
    this.#timer = setTimeout(() => this.#fail(reason, 'restart'), ms)
  }

  #fail(reason: string, retry: Retry, error?: unknown): void {
    if (this.#stage === 'idle') return
    this.#log.warn('linking.passkey_failed', { reason, ...(error ? { error: describeError(error) } : {}) })
    this.stop()
    this.#tell({ stage: 'failed', reason, retry })
    void this.#sock.end(new Error('the ceremony failed'))
  }

  #tell(data: object): void {
    this.#events.emit('PASSKEY', data)
  }
}
