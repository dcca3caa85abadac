// Calls to the account, reported as events at their start and end. With REJECT_CALLS they are rejected at once.
import { isLidUser, isPnUser, jidDecode, jidNormalizedUser, type WACallEvent, type WASocket } from 'baileys'
import { millisOf, within } from '../connection/timing.ts'
import { describeError, type Log } from '../log.ts'
import type { Events } from '../server/events.ts'
import { Bounded } from '../store/bounded-cache.ts'

const LONGEST_ID = 128
const REJECT_MS = 10_000

/** What happens to a call: it rings, or it is rejected. One to a group rings always. */
export type CallPolicy = 'ring' | 'reject'
type Outcome = 'missed' | 'answered' | 'rejected'

/** How a call ended; a call that was taken on the phone ends when one of the two hangs up. */
export function outcomeOf(status: WACallEvent['status'], wasAnswered: boolean): Outcome | undefined {
  if (status === 'reject') return 'rejected'
  if (status === 'timeout' || status === 'terminate') return wasAnswered ? 'answered' : 'missed'
  return undefined
}

export class Calls {
  readonly #events: Events
  readonly #log: Log
  readonly #policy: CallPolicy
  readonly #answered = new Bounded(200)
  readonly #rejected = new Bounded(200)

  constructor(events: Events, log: Log, policy: CallPolicy) {
    this.#events = events
    this.#log = log
    this.#policy = policy
  }

  attach(sock: WASocket): void {
    sock.ev.on('call', calls => {
      for (const call of calls)
        this.#came(call, sock).catch(error => this.#log.error('call.not_read', { error: describeError(error) }))
    })
  }

  async #came(call: WACallEvent, sock: WASocket): Promise<void> {
    if (!call.id || call.id.length > LONGEST_ID) return
    if (call.status === 'accept') this.#answered.set(call.id, true)
    const outcome = outcomeOf(call.status, this.#answered.has(call.id))
    // What rang while we were away rings no more; that it was missed follows.
    const isRinging = call.status === 'offer' && !call.offline
    if ((!isRinging && !outcome) || this.#rejected.has(call.id)) return
    const jids = [call.from, call.callerPn, call.chatId].filter(jid => typeof jid === 'string')
    const lid = jids.find(jid => isLidUser(jid))
    let pn = jids.find(jid => isPnUser(jid))
    if (!pn && lid) pn = (await sock.signalRepository.lidMapping.getPNForLID(lid)) ?? undefined
    const phone = pn ? jidDecode(pn)?.user : undefined
    const facts = {
      callId: call.id,
      from: jids[0] ?? '',
      ...(phone ? { phone } : {}),
      ...(lid ? { lid: jidNormalizedUser(lid) } : {}),
      ...(call.groupJid ? { group: call.groupJid } : {}),
      video: !!call.isVideo,
      at: millisOf(call.date.getTime() / 1000),
    }
    this.#tell(outcome ?? 'offered', facts)
    if (isRinging && this.#policy === 'reject' && !call.isGroup) await this.#reject(call, sock, facts)
  }

  /** That it ended is told here, because WhatsApp tells only others. */
  async #reject(call: WACallEvent, sock: WASocket, facts: object): Promise<void> {
    this.#rejected.set(call.id, true)
    try {
      await within(REJECT_MS, sock.rejectCall(call.id, call.from), () => {
        throw new Error('WhatsApp did not answer')
      })
      this.#tell('rejected', { ...facts, at: Date.now() })
    } catch (error) {
      this.#rejected.delete(call.id)
      this.#log.warn('call.not_rejected', { error: describeError(error) })
    }
  }

  #tell(status: Outcome | 'offered', facts: object): void {
    this.#events.emit('CALL', { ...facts, status })
    this.#log.info('call.reported', { status })
  }
}
