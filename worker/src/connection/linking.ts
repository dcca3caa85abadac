// Linking a device: QR, pairing code, the refreshed secret; a request for a passkey is answered in passkey.ts, or reported.
import { randomBytes } from 'node:crypto'
import {
  type BinaryNode,
  buildAckStanza,
  configureSuccessfulPairing,
  getAllBinaryNodeChildren,
  getBinaryNodeChild,
  getBinaryNodeChildBuffer,
  S_WHATSAPP_NET,
  type WASocket,
} from 'baileys'
import { Ending } from '../exit-codes.ts'
import { describeError, type Log } from '../log.ts'
import type { Events } from '../server/events.ts'
import { type Auth, forgetUnfinishedLink, isLinked } from '../store/auth.ts'
import { type Assertion, Passkey, type PasskeyChoice } from './passkey.ts'

const FIRST_QR_MS = 60_000
const NEXT_QR_MS = 20_000
const CODE_LIFE_MS = 180_000
const CODE_ANSWER_MS = 10_000

/** How often the phone may repeat its step of a pairing by code, as WhatsApp's own client allows it. */
const MOST_HELLOS = 3

/** Baileys closes the connection when the codes run out, a passkey or not: so many copies of the last one keep it for 8 minutes. */
const REF_COPIES = 24

const REFRESH_TAGS = ['companion_reg_refresh', 'pair-device-rotate-qr']

export type PairingCode = { code: string; expiresAt: number }

/** The code that Baileys shows holds the secret as it was when the socket opened; ours holds the current one. */
export function withSecret(qr: string, secret: string): string {
  const fields = qr.split(',')
  if (fields.length < 4) return qr
  fields[3] = secret
  return fields.join(',')
}

/** `from` is the server itself, in either of the forms it is decoded to. */
const isFromServer = (node: BinaryNode): boolean => [S_WHATSAPP_NET, 's.whatsapp.net'].includes(node.attrs.from ?? '')

/** Baileys reads the refs only after it has sent its answer, so what is added here it takes for WhatsApp's. */
function copyLastRef(stanza: BinaryNode): void {
  const pairDevice = getBinaryNodeChild(stanza, 'pair-device')
  const refs = pairDevice?.content
  const last = Array.isArray(refs) ? refs.at(-1) : undefined
  if (last && Array.isArray(refs)) refs.push(...Array<BinaryNode>(REF_COPIES).fill(last))
}

export class Linking {
  readonly #sock: WASocket
  readonly #auth: Auth
  readonly #events: Events
  readonly #log: Log
  readonly #end: (ending: Ending) => void
  readonly #passkey: Passkey | undefined
  readonly #refs = new Set<string>()
  #qr: string | undefined
  #qrExpiresAt = 0
  #isRenewed = false
  #mode: 'qr' | 'code' | 'code entered' | 'linked' = 'qr'
  #code: { ref: Uint8Array | undefined; expiresAt: number; hellos: number } | undefined
  #ready: () => void = () => undefined
  readonly #firstQr = new Promise<void>(resolve => (this.#ready = resolve))

  constructor(
    sock: WASocket,
    auth: Auth,
    events: Events,
    log: Log,
    end: (ending: Ending) => void,
    passkeys: PasskeyChoice = { isOn: false, browser: undefined, phoneMs: 0 },
  ) {
    this.#sock = sock
    this.#auth = auth
    this.#events = events
    this.#log = log
    this.#end = end
    this.#passkey = passkeys.isOn ? new Passkey(sock, auth, events, log, passkeys) : undefined
    if (isLinked(auth.creds)) this.#mode = 'linked'
    else this.#listen()
  }

  /** Takes a QR in. Baileys renews it by itself; one that comes after the phone has accepted means nothing. */
  showQr(qr: string, visibility: 'show' | 'hide'): void {
    const ref = qr.split(',', 1)[0] ?? ''
    if (this.#refs.has(ref)) {
      // A copy of ours: the codes have run out. While a passkey is being asked for, that does not matter.
      if (!this.#passkey?.isRunning)
        void this.#sock.end(Object.assign(new Error('QR refs attempts ended'), { output: { statusCode: 408 } }))
      return
    }
    this.#refs.add(ref)
    this.#qrExpiresAt = Date.now() + (this.isFirstQr ? FIRST_QR_MS : NEXT_QR_MS)
    this.#qr = qr
    this.#ready()
    if (visibility === 'show') this.#publishQr()
  }

  get isFirstQr(): boolean {
    return this.#qr === undefined
  }

  accepted(): void {
    this.#mode = 'linked'
    this.#passkey?.stop()
  }

  /** Asks for a pairing code and returns it once WhatsApp has taken it. Rejects with what WhatsApp said, and linking by QR goes on. */
  async requestCode(phone: string): Promise<PairingCode> {
    if (this.#mode === 'linked') throw new Error('ALREADY_LINKED')
    await this.#firstQr
    this.#mode = 'code'
    const taken = this.#answerToHello()
    const askedAt = Date.now() // its life counts from here, not from the answer
    this.#code = { ref: undefined, expiresAt: askedAt + CODE_LIFE_MS, hellos: 0 }
    try {
      const [code] = await Promise.all([this.#sock.requestPairingCode(phone), taken])
      const shown = { code, expiresAt: askedAt + CODE_LIFE_MS }
      this.#events.emit('PAIRING_CODE', shown)
      this.#log.info('linking.code_ready')
      return shown
    } catch (error) {
      this.#codeFailed(error)
      throw error
    }
  }

  /** The person's answer to WhatsApp's request for the passkey. */
  async signed(assertion: Assertion): Promise<void> {
    if (!this.#passkey) throw new Error('PASSKEYS_OFF')
    await this.#passkey.submit(assertion)
  }

  async confirmed(): Promise<void> {
    if (!this.#passkey) throw new Error('PASSKEYS_OFF')
    await this.#passkey.confirm()
  }

  /** The connection has ended. */
  closed(): void {
    if (this.#passkey?.isRunning && this.#mode !== 'linked')
      this.#events.emit('PASSKEY', { stage: 'failed', reason: 'socket_closed', retry: 'restart' })
    this.#passkey?.stop()
  }

  #codeFailed(error: unknown): void {
    this.#log.warn('linking.code_refused', { error: describeError(error) })
    forgetUnfinishedLink(this.#auth.creds)
    this.#auth.saveCreds()
    this.#mode = 'qr'
    this.#events.emit('STATUS_CHANGE', {
      status: 'pairing_code_refused',
      error: error instanceof Error ? error.message : 'refused',
    })
    this.#publishQr()
  }

  /** requestPairingCode resolves when the question is written; a code that the server did not take must not be shown. */
  #answerToHello(): Promise<void> {
    const { ws } = this.#sock
    return new Promise((resolve, reject) => {
      const settle = (outcome: Error | undefined): void => {
        clearTimeout(timer)
        ws.off('CB:iq,type:result,link_code_companion_reg', taken)
        ws.off('CB:iq,type:error,error', refused)
        ws.off('close', closed)
        if (outcome) reject(outcome)
        else resolve()
      }
      const taken = (node: BinaryNode): void => {
        const answer = getBinaryNodeChild(node, 'link_code_companion_reg')
        if (this.#code) this.#code.ref = getBinaryNodeChildBuffer(answer, 'link_code_pairing_ref') as Uint8Array
        settle(undefined)
      }
      const refused = (node: BinaryNode): void =>
        settle(new Error(`PAIRING_CODE_REFUSED_${getBinaryNodeChild(node, 'error')?.attrs.code ?? 'UNKNOWN'}`))
      const closed = (): void => settle(new Error('SOCKET_CLOSED'))
      const timer = setTimeout(() => settle(new Error('PAIRING_CODE_UNANSWERED')), CODE_ANSWER_MS)
      ws.on('CB:iq,type:result,link_code_companion_reg', taken)
      ws.on('CB:iq,type:error,error', refused)
      ws.on('close', closed)
    })
  }

  #listen(): void {
    const { ws } = this.#sock
    if (this.#passkey) ws.on('CB:iq,type:set,pair-device', copyLastRef)
    ws.prependListener('CB:iq,,pair-success', (node: BinaryNode) => this.#checkPairing(node))
    ws.on('CB:notification', (node: BinaryNode) => this.#notified(node))
    ws.on('CB:notification,type:link_code_companion_reg', (node: BinaryNode) => this.#phoneAnswered(node))
  }

  /**
   * The code was entered on the phone. It may repeat this step, and Baileys then makes a new secret; for another code, too late,
   * or too often, it must not. Baileys reads the same stanza after us, and does nothing about one without content.
   */
  #phoneAnswered(node: BinaryNode): void {
    const step = getBinaryNodeChild(node, 'link_code_companion_reg')
    if (step?.attrs.stage !== 'primary_hello') return
    const code = this.#code
    const ref = getBinaryNodeChildBuffer(step, 'link_code_pairing_ref')
    const isOurs = ref instanceof Uint8Array && !!code?.ref && Buffer.compare(ref, code.ref) === 0
    if (code && isOurs && Date.now() < code.expiresAt && code.hellos < MOST_HELLOS) {
      code.hellos += 1
      if (this.#mode === 'code') this.#mode = 'code entered'
      return
    }
    this.#log.warn('linking.step_ignored', { ours: isOurs, steps: code?.hellos })
    // Baileys has an index of the parts already, so each is emptied.
    for (const part of getAllBinaryNodeChildren(step)) part.content = undefined
  }

  /** Baileys hangs up without a word on a pairing that is not signed for this device; WhatsApp's own client says why. */
  #checkPairing(node: BinaryNode): void {
    try {
      configureSuccessfulPairing(node, this.#auth.creds)
    } catch (error) {
      this.#log.warn('linking.pairing_refused', { error: describeError(error) })
      const content = [{ tag: 'error', attrs: { code: '401', text: 'not-authorized' } }]
      const attrs = { to: S_WHATSAPP_NET, type: 'error', id: node.attrs.id ?? '' }
      this.#sock.sendNode({ tag: 'iq', attrs, content }).catch(() => undefined)
      this.#passkey?.misPaired()
    }
  }

  #notified(node: BinaryNode): void {
    // Baileys cannot acknowledge before it knows who it is; with a pairing code it does know, and does it itself.
    if (!this.#auth.creds.me) this.#sock.sendNode(buildAckStanza(node)).catch(() => undefined)
    if (!isFromServer(node)) return
    if (node.attrs.type === 'passkey_prologue_request') this.#passkeyDemanded(node)
    if (node.attrs.type === 'crsc_continuation') void this.#passkey?.continued(node)
    const isRefresh = REFRESH_TAGS.some(tag => node.attrs.type === tag || getBinaryNodeChild(node, tag))
    if (isRefresh) this.#renewSecret()
  }

  #passkeyDemanded(node: BinaryNode): void {
    if (this.#passkey) return void this.#passkey.requested(node)
    this.#log.error('linking.passkey_required')
    this.#events.emit('STATUS_CHANGE', { status: 'PASSKEY_REQUIRED' })
    this.#events.emit('AUTH_FAILURE', { reason: 'PASSKEY_REQUIRED' })
    this.#end(new Ending('PASSKEY_REQUIRED', 'WhatsApp asks for a passkey to link this account'))
  }

  /** The server retires the secret in the QR. Once a code has been entered the pairing depends on it, and it must stay. */
  #renewSecret(): void {
    if (this.#mode === 'linked' || this.#mode === 'code entered' || this.#passkey?.isRunning) return
    this.#auth.creds.advSecretKey = randomBytes(32).toString('base64')
    this.#auth.saveCreds()
    this.#isRenewed = true
    this.#log.info('linking.secret_renewed')
    this.#publishQr()
  }

  #publishQr(): void {
    if (this.#mode !== 'qr' || this.#qr === undefined || this.#passkey?.isRunning) return
    this.#events.emit('QR_CODE', {
      qr: withSecret(this.#qr, this.#auth.creds.advSecretKey),
      expiresAt: this.#qrExpiresAt,
      // The answer to a scan, which is lost: the person is asked to scan again until this connection ends.
      ...(this.#isRenewed ? { renewed: true } : {}),
    })
  }
}
