// Sends claimed messages one at a time; acks only after WhatsApp's own ack.
import { type BinaryNode, generateWAMessage, jidDecode, jidNormalizedUser, type WASocket } from 'baileys'
import type { Device } from '../connection/device.ts'
import type { Presence } from '../connection/presence.ts'
import { backoffMs, sleep, within } from '../connection/timing.ts'
import { Ending } from '../exit-codes.ts'
import { baileysLogger, describeError, type Log, maskNumbers } from '../log.ts'
import type { Events } from '../server/events.ts'
import type { Claimed, Command, Outbox } from '../server/outbox.ts'
import type { Settings } from '../settings.ts'
import { Bounded } from '../store/bounded-cache.ts'
import type { Messages } from '../store/message-store.ts'
import { type Address, type Addressing, otherName } from './addressing.ts'
import { type Prepared, prepare } from './content.ts'
import { uploadOf } from './media-upload.ts'
import type { Proof, Proofs } from './message-acks.ts'
import { addContext, mentionPeople } from './message-context.ts'
import { failed, failedToSend, type Outcome, refusedByWhatsApp } from './send-outcomes.ts'
import { typingMs } from './typing-time.ts'

const RECONNECT_WAIT_MS = 20_000
const WRITE_TIMEOUT_MS = 90_000
const RENEWALS_PER_LEASE = 3
const SPIN_GUARD_MS = 200
const RETRY_MIN_MS = 250
const RETRY_MAX_MS = 15_000
/** How long a phone is taken to be on WhatsApp without asking again. */
const KNOWN_PHONE_MS = 24 * 60 * 60_000

type SenderSettings = Pick<Settings, 'ackTimeoutMs' | 'typingMaxMs'>

/** WhatsApp's answer to one writing, before it is judged. */
type Answer = Outcome | { kind: 'refused'; code: string }

/** What the stanza says of the kind, where the ciphertext alone is not enough. */
const metaNodes = (kind: Claimed['kind']): BinaryNode[] =>
  kind === 'poll' ? [{ tag: 'meta', attrs: { polltype: 'creation' } }] : []

export type Parts = {
  settings: SenderSettings
  device: Device
  outbox: Outbox
  proofs: Proofs
  messages: Messages
  events: Events
  log: Log
  runCommand: (command: Command) => Promise<void>
  addressing: Addressing
  presence: Presence
  /** Whether WhatsApp says that the account may not write to strangers now. */
  isLocked: () => Promise<boolean>
  checkEpoch: () => void
  /** What the outcome of a message, and the next message, wait for. */
  durable: () => Promise<void> | undefined
}

export class Sender {
  readonly #parts: Parts
  readonly #chats = new Bounded(2_000, KNOWN_PHONE_MS)
  /** Stops claiming; what is in hand is finished or handed back. */
  readonly #stopping = new AbortController()
  /** Gives up what is in hand. */
  readonly #gone = new AbortController()
  #running: Promise<void> = Promise.resolve()

  constructor(parts: Parts) {
    this.#parts = parts
  }

  get busy(): boolean {
    return this.#inHand
  }
  #inHand = false

  start(onEnding: (ending: Ending) => void): void {
    this.#running = this.#run().catch((error: unknown) => {
      if (error instanceof Ending) onEnding(error)
      else throw error
    })
  }

  /** Stops claiming and waits for what is in hand, but no longer than `ms`. */
  async stop(ms: number): Promise<void> {
    this.#stopping.abort()
    await within(ms, this.#running, () => undefined)
    this.#gone.abort()
  }

  async #run(): Promise<void> {
    let failures = 0
    while (!this.#stopping.signal.aborted) {
      const { outbox, device, runCommand, log, durable } = this.#parts
      await durable()
      const askedAt = Date.now()
      const claim = await outbox.claim(device.isOpen ? 'messages and commands' : 'commands', this.#stopping.signal)
      if (claim === 'unreachable') {
        await sleep(backoffMs(failures++, RETRY_MIN_MS, RETRY_MAX_MS), this.#stopping.signal)
        continue
      }
      failures = 0
      if (claim === 'nothing') {
        if (Date.now() - askedAt < SPIN_GUARD_MS) await sleep(SPIN_GUARD_MS, this.#stopping.signal)
      } else if ('command' in claim) {
        runCommand(claim.command).catch(error =>
          log.error('command.failed', { kind: claim.command.kind, error: describeError(error) }),
        )
      } else {
        await this.#handle(claim.message)
      }
    }
  }

  async #handle(message: Claimed): Promise<void> {
    const { log } = this.#parts
    log.info('message.claimed', {
      message: message.messageId,
      to: maskNumbers(message.to),
      kind: message.kind,
      attempt: message.attempt,
    })
    this.#inHand = true
    const lease = this.#keepLease(message)
    try {
      const outcome = await this.#attempt(message, lease)
      await this.#report(message, outcome)
    } finally {
      this.#parts.presence.end()
      lease.stop()
      this.#inHand = false
    }
  }

  #keepLease({ messageId, leaseMs }: Claimed): { lost: () => boolean; stop: () => void } {
    let isLost = false
    const renew = async (): Promise<void> => {
      if (!(await this.#parts.outbox.renew(messageId))) isLost = true
    }
    const timer = setInterval(
      () => void renew().catch(() => (isLost = true)),
      Math.max(50, leaseMs / RENEWALS_PER_LEASE),
    )
    return { lost: () => isLost, stop: () => clearInterval(timer) }
  }

  async #attempt(message: Claimed, lease: { lost: () => boolean }): Promise<Outcome> {
    const known = this.#parts.messages.acknowledgedAt(message.whatsappId)
    if (known !== undefined) return { kind: 'sent', at: known }
    const prepared = await prepare(message, this.#parts.outbox, this.#stopping.signal)
    if ('kind' in prepared) return prepared
    try {
      return await this.#send(message, prepared, lease)
    } finally {
      await prepared.dispose()
    }
  }

  async #send(message: Claimed, prepared: Prepared, lease: { lost: () => boolean }): Promise<Outcome> {
    const sock = await this.#parts.device.whenOpen(RECONNECT_WAIT_MS)
    if (!sock) return failed('SOCKET_CLOSED', 'not connected', 'retry')
    const address = await this.#address(sock, message.to)
    if ('kind' in address) return address
    await this.#parts.presence.begin()
    await this.#type(sock, address.jid, message)
    if (this.#stopping.signal.aborted)
      return failed('WORKER_STOPPING', 'the worker was asked to stop before it sent', 'retry')
    this.#parts.checkEpoch()
    // The answer renews the lease, so a yes that came within one lease is still true.
    const mayWrite = !lease.lost() && (await this.#parts.outbox.mayWrite(message.messageId, message.leaseMs))
    if (!mayWrite) return { kind: 'abandoned' }
    return this.#write(sock, address, message, prepared)
  }

  /** Where to send: WhatsApp is asked first, because messages to numbers without WhatsApp are held against the sender. */
  async #address(sock: WASocket, to: string): Promise<Address | Outcome> {
    const unknown = failed('LOOKUP_FAILED', 'WhatsApp did not say who the recipient is', 'retry')
    try {
      let chat = to.includes('@') ? to : this.#chats.get<string>(to)
      if (!chat) {
        const found = await sock.onWhatsApp(to)
        if (!found) return unknown
        chat = found.find(entry => entry.exists)?.jid
        if (!chat) return failed('NOT_ON_WHATSAPP', 'the recipient has no WhatsApp', 'give up')
        this.#chats.set(to, chat)
      }
      return (await this.#parts.addressing.resolve(sock, chat)) ?? unknown
    } catch (error) {
      return failedToSend(error)
    }
  }

  async #type(sock: WASocket, jid: string, { kind, text, media }: Claimed): Promise<void> {
    const ms = typingMs((text ?? media?.caption ?? '').length, this.#parts.settings.typingMaxMs)
    if (ms <= 0 || !this.#parts.presence.isTypingShown) return
    await sock
      .sendPresenceUpdate(kind === 'audio' || kind === 'voice' ? 'recording' : 'composing', jid)
      .catch(() => undefined)
    await sleep(ms, this.#stopping.signal)
  }

  /** Sends the message, and once more if WhatsApp did not take the first for how it named the person. */
  async #write(sock: WASocket, address: Address, message: Claimed, prepared: Prepared): Promise<Outcome> {
    const answer = await this.#exchange(sock, address, message, prepared)
    if (answer.kind !== 'refused') return answer
    const other = await this.#otherAddress(sock, address, answer.code)
    if (!other) return this.#judge(answer.code)
    const second = await this.#exchange(sock, other, message, prepared)
    return second.kind === 'refused' ? this.#judge(second.code) : second
  }

  /** After 479 the person is looked up anew, because what was known of them is forgotten; after others the other name is tried. */
  async #otherAddress(sock: WASocket, address: Address, code: string): Promise<Address | undefined> {
    const { addressing } = this.#parts
    if (code !== '479') return addressing.other(sock, address, code)
    return addressing.resolve(sock, address.phone ?? address.jid).catch(() => undefined)
  }

  /** Writes the message and waits for proof that WhatsApp has it. */
  async #exchange(sock: WASocket, address: Address, message: Claimed, prepared: Prepared): Promise<Answer> {
    const { proofs, settings } = this.#parts
    const { proof, cancel } = proofs.expect(message.whatsappId)
    const interruption = this.#interruption(sock)
    const proven = proof.then((found): Promise<Answer> => this.#read(sock, found, address))
    const written = this.#transmit(sock, address, message, prepared)
    const slow = (): Answer => failed('SEND_TIMEOUT', 'the message could not be written in time', 'retry')
    const unanswered = (): Answer => failed('ACK_TIMEOUT', 'WhatsApp did not acknowledge the message', 'retry')
    try {
      const early = await within(WRITE_TIMEOUT_MS, Promise.race([written, proven, interruption.happened]), slow)
      const outcome =
        early ?? (await within(settings.ackTimeoutMs, Promise.race([proven, interruption.happened]), unanswered))
      if (outcome.kind !== 'sent') proofs.watchFor(message.whatsappId, message.messageId)
      return outcome
    } finally {
      cancel()
      interruption.cancel()
    }
  }

  /** What ends the waiting without an answer: the connection closes, or our time to stop is over. */
  #interruption(sock: WASocket): { happened: Promise<Outcome>; cancel: () => void } {
    let cancel = (): void => undefined
    const happened = new Promise<Outcome>(resolve => {
      const leave = (): void => resolve({ kind: 'left' })
      this.#gone.signal.addEventListener('abort', leave)
      const forget = this.#parts.device.onClosed(sock, () =>
        resolve(failed('SOCKET_CLOSED', 'the connection closed before WhatsApp answered', 'retry')),
      )
      cancel = () => {
        this.#gone.signal.removeEventListener('abort', leave)
        forget()
      }
    })
    return { happened, cancel }
  }

  /**
   * Nothing when it was written; that alone is no success. What `sendMessage` of Baileys does, in two steps: a recipient who
   * cannot decrypt the message may ask for it again at once, so it is remembered before it is written.
   */
  async #transmit(
    sock: WASocket,
    address: Address,
    message: Claimed,
    prepared: Prepared,
  ): Promise<Outcome | undefined> {
    const { messages, addressing, log } = this.#parts
    const { messageId, whatsappId } = message
    const { jid } = address
    try {
      const { content, jids } = await mentionPeople(sock, addressing, message.mentions ?? [], prepared.content)
      const composed = await generateWAMessage(jid, content, {
        logger: baileysLogger(log),
        userJid: (addressing.byLid ? sock.user?.lid : sock.user?.id) ?? '',
        upload: uploadOf(sock),
        messageId: whatsappId,
      })
      addContext(composed.message, message, jids, address, { self: addressing.self, messages })
      messages.remember(composed)
      const additionalNodes = [...(await addressing.firstContactToken(address)), ...metaNodes(message.kind)]
      await sock.relayMessage(jid, composed.message ?? {}, {
        messageId: whatsappId,
        additionalAttributes: otherName(address),
        additionalNodes,
      })
      log.info('message.written', { message: messageId })
      return undefined
    } catch (error) {
      if (error instanceof Ending) throw error
      log.warn('message.not_written', { message: messageId, error: describeError(error) })
      // The keys of a device that is gone are refused, and with them the whole message: the next attempt asks who is there.
      this.#forgetDevices(address)
      return failedToSend(error)
    }
  }

  /** What an ack says, and what it says of the recipient besides. */
  async #read(sock: WASocket, { at, error, isReassigned, deviceHash }: Proof, address: Address): Promise<Answer> {
    const isStale = deviceHash !== undefined && deviceHash !== this.#knownDeviceHash(sock, address)
    if (isStale || isReassigned || error === '479') this.#forgetDevices(address)
    // A field of the wrong form: of the device list, or of the LID that we know for the number.
    if (error === '479') await this.#parts.addressing.forget(sock, address)
    if (isReassigned) {
      this.#parts.log.warn('recipient.reassigned', { accepted: error === undefined })
      await this.#reassigned(sock, address)
    }
    return error === undefined ? { kind: 'sent', at } : { kind: 'refused', code: error }
  }

  /** The number belongs to another account now. Its LID is asked for before the next message, and the server is told. */
  async #reassigned(sock: WASocket, address: Address): Promise<void> {
    const { addressing, events } = this.#parts
    await addressing.forget(sock, address)
    const { phone, lid } = address
    if (!phone) return
    const found = await sock.signalRepository.lidMapping.getLIDForPN(phone).catch(() => undefined)
    const newLid = found ? jidNormalizedUser(found) : undefined
    if (newLid === lid) return
    events.emit('CONTACT_IDENTITY_CHANGED', {
      phone: jidDecode(phone)?.user ?? '',
      ...(lid ? { oldLid: lid } : {}),
      ...(newLid ? { newLid } : {}),
    })
  }

  async #judge(code: string): Promise<Outcome> {
    if (code === '404') this.#chats.clear()
    const isLocked = (code === '463' || code === '475') && (await this.#parts.isLocked())
    return refusedByWhatsApp(code, isLocked)
  }

  #knownDeviceHash({ user }: WASocket, { jid }: Address): string | undefined {
    const { addressing, device } = this.#parts
    const people = [jid, addressing.self].filter(each => each !== undefined)
    return device.hashOfDevices([...new Set(people)], addressing.byLid ? user?.lid : user?.id)
  }

  #forgetDevices({ jid, phone, lid }: Address): void {
    const own = this.#parts.addressing.self
    for (const name of [jid, phone, lid, own]) if (name) this.#parts.device.forgetDevices(name)
  }

  async #report(message: Claimed, outcome: Outcome): Promise<void> {
    const { outbox, messages, events, log, durable } = this.#parts
    const { messageId, whatsappId, to } = message
    if (outcome.kind === 'sent') {
      messages.acknowledge(whatsappId, outcome.at)
      events.emit('MESSAGE_SENT', { messageId, whatsappId, to, timestamp: outcome.at })
      await durable()
      await outbox.ack(messageId, whatsappId, outcome.at, this.#gone.signal)
      log.info('message.sent', { message: messageId })
    } else if (outcome.kind === 'failed') {
      const { code, error, retryable } = outcome.nack
      events.emit('MESSAGE_FAILED', { messageId, whatsappId, to, code, error, retryable })
      await durable()
      await outbox.nack(messageId, outcome.nack, this.#gone.signal)
      log.warn('message.failed', { message: messageId, code, retryable })
    } else {
      log.warn(`message.${outcome.kind}`, { message: messageId })
    }
  }

  /** A proof that came after we had given the message back as unknown. */
  async acknowledgeLate(whatsappId: string, messageId: string, at: number): Promise<void> {
    const { outbox, messages, log, durable } = this.#parts
    log.info('message.proven_late', { message: messageId })
    messages.acknowledge(whatsappId, at)
    await durable()
    await outbox.ack(messageId, whatsappId, at, this.#gone.signal)
  }
}
