// Client of the server's store of credentials: the newest whole copy and the changes after it.
import { Ending } from '../exit-codes.ts'
import type { Settings } from '../settings.ts'
import { type Answer, type Call, isFenced, send } from './http.ts'

type ServiceSettings = Pick<Settings, 'outboxUrl' | 'workerToken' | 'epoch'>

/** What the server has: a copy, the sealed changes after it in their order, and the epoch and number of the copy. */
export type StoredCredentials = { epoch: number; first: number; copy: Buffer; changes: Buffer[] }

/** `refused`: waiting does not help, because the server lacks what came before, or the body is too long for it. */
export type Delivery = 'stored' | 'refused' | 'unreachable'

const CALL_TIMEOUT_MS = 15_000
const COPY_TIMEOUT_MS = 60_000
const LONGEST_ANSWER_BYTES = 128 << 20
const LENGTH_BYTES = 4

/** The parts of an answer: each begins with its length. */
function split(body: Buffer): Buffer[] {
  const parts: Buffer[] = []
  for (let at = 0; at < body.length; ) {
    const from = at + LENGTH_BYTES
    at = from + body.readUInt32BE(at)
    if (at > body.length) throw new Error('the answer is cut off')
    parts.push(body.subarray(from, at))
  }
  return parts
}

export class CredentialService {
  readonly #settings: ServiceSettings
  readonly #answered: () => void

  constructor(settings: ServiceSettings, answered: () => void) {
    this.#settings = settings
    this.#answered = answered
  }

  /** What the server has, unless it came from the directory that epoch `known` opened last. Throws FENCED, or when unanswered. */
  async fetch(known: number | undefined): Promise<StoredCredentials | undefined> {
    const answer = await this.#call(known === undefined ? '' : `?known=${known}`, {
      method: 'GET',
      timeoutMs: COPY_TIMEOUT_MS,
      maxBytes: LONGEST_ANSWER_BYTES,
    })
    if (answer.status === 204) return undefined
    if (answer.status !== 200) throw new Error(`the server answered ${answer.status}`)
    const [copy, ...changes] = split(answer.body)
    const [epoch, first] = [Number(answer.headers['x-epoch']), Number(answer.headers['x-first'])]
    if (!copy || !Number.isSafeInteger(epoch) || !Number.isSafeInteger(first))
      throw new Error('the answer is not a copy')
    return { epoch, first, copy, changes }
  }

  putCopy(sequence: number, body: Uint8Array, signal: AbortSignal): Promise<Delivery> {
    return this.#put(`/copy/${sequence}`, { body, timeoutMs: COPY_TIMEOUT_MS, signal })
  }

  putChange(sequence: number, body: Uint8Array, signal: AbortSignal): Promise<Delivery> {
    return this.#put(`/changes/${sequence}`, { body, timeoutMs: CALL_TIMEOUT_MS, signal })
  }

  async #put(path: string, call: Omit<Call, 'headers'>): Promise<Delivery> {
    try {
      const { status } = await this.#call(path, call)
      if (status < 300) return 'stored'
      return status === 409 || status === 413 ? 'refused' : 'unreachable'
    } catch (error) {
      if (error instanceof Ending) throw error
      return 'unreachable'
    }
  }

  async #call(path: string, call: Omit<Call, 'headers'>): Promise<Answer> {
    const { outboxUrl, workerToken, epoch } = this.#settings
    const url = new URL(`${outboxUrl.href.replace(/\/outbox\/?$/, '')}/credentials${path}`)
    const headers = {
      authorization: `Bearer ${workerToken}`,
      'x-epoch': String(epoch),
      'content-type': 'application/octet-stream',
    }
    const answer = await send(url, { ...call, headers })
    if (isFenced(answer)) throw new Ending('FENCED', 'the server knows a newer epoch')
    if (answer.status < 300) this.#answered()
    return answer
  }
}
