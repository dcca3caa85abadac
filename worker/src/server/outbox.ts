// Client of the server's outbox: claim, renew, ack, nack, and command results.
import { randomUUID } from 'node:crypto'
import { backoffMs, sleep } from '../connection/timing.ts'
import { Ending } from '../exit-codes.ts'
import { describeError, type Log } from '../log.ts'
import type { Settings } from '../settings.ts'
import { type Answer, type Call, isFenced, parseJson, type StoredFile, send } from './http.ts'

export type Kind =
  | 'text'
  | 'image'
  | 'document'
  | 'audio'
  | 'video'
  | 'voice'
  | 'sticker'
  | 'location'
  | 'contacts'
  | 'poll'

export type Media = {
  url: string
  mimetype: string
  filename?: string
  caption?: string
  viewOnce?: boolean
  seconds?: number
  width?: number
  height?: number
  /** A small JPEG, and the bars of a voice note, in base64. */
  thumbnail?: string
  waveform?: string
  animated?: boolean
}

export type Card = { name: string; phones: string[] }

/** A person by the names that the server knows: digits of the phone, and of the LID. */
export type Person = { phone?: string; lid?: string }

/** The message that another one answers; what it says is for those who do not have it. */
export type Quote = Person & { whatsappId: string; fromMe?: boolean; kind?: string; text?: string }

export type Claimed = {
  messageId: string
  whatsappId: string
  to: string
  kind: Kind
  text?: string
  /** The page that the text links to; the thumbnail in base64. */
  preview?: { url: string; title: string; description?: string; thumbnail?: string }
  media?: Media
  location?: { latitude: number; longitude: number; name?: string; address?: string }
  contacts?: Card[]
  poll?: { options: string[]; selectable: number }
  replyTo?: Quote
  mentions?: Person[]
  attempt: number
  leaseMs: number
}

export type Command = {
  id: string
  kind: string
  phone?: string
  whatsappId?: string
  /** Further ids, with spaces between. */
  others?: string
  maxBytes?: string
  to?: string
  text?: string
  lid?: string
  fromMe?: string
  assertion?: string
  epoch?: string
}

export type Claim = { message: Claimed } | { command: Command } | 'nothing' | 'unreachable'

export type Nack = { code: string; error: string; retryable: boolean }

type OutboxSettings = Pick<Settings, 'outboxUrl' | 'workerToken' | 'epoch' | 'claimWaitMs' | 'commandWaitMs'>

const CALL_TIMEOUT_MS = 15_000
const FILE_TIMEOUT_MS = 120_000
const RETRY_MIN_MS = 250
const RETRY_MAX_MS = 15_000

export class Outbox {
  readonly #settings: OutboxSettings
  readonly #log: Log
  readonly #answered: () => void
  /** By this the server knows that a claim is repeated because its answer was lost, and answers with the same message. */
  readonly #process = randomUUID()

  constructor(settings: OutboxSettings, log: Log, answered: () => void) {
    this.#settings = settings
    this.#log = log
    this.#answered = answered
  }

  /** Waits for something to do. Messages are asked for only by a connected worker; commands always. Throws FENCED. */
  async claim(accept: 'messages and commands' | 'commands', signal: AbortSignal): Promise<Claim> {
    const waitMs = accept === 'commands' ? this.#settings.commandWaitMs : this.#settings.claimWaitMs
    const body = accept === 'commands' ? { waitMs, accept: ['commands'] } : { waitMs, process: this.#process }
    let answer: Answer
    try {
      answer = await this.#call('claim', { body: JSON.stringify(body), timeoutMs: waitMs + CALL_TIMEOUT_MS, signal })
    } catch (error) {
      if (error instanceof Ending) throw error
      if (!signal.aborted) this.#log.warn('outbox.unreachable', { error: describeError(error) })
      return 'unreachable'
    }
    if (answer.status === 204) return 'nothing'
    const content = answer.status === 200 ? parseJson(answer.body) : undefined
    if (content?.command) return { command: content.command as Command }
    if (typeof content?.messageId === 'string') return { message: content as unknown as Claimed }
    this.#log.warn('outbox.unexpected_answer', { status: answer.status })
    return 'unreachable'
  }

  /** Says that WhatsApp has the message; repeated until the server has heard it. */
  ack(messageId: string, whatsappId: string, timestamp: number, signal: AbortSignal): Promise<boolean> {
    return this.#insist(`${encodeURIComponent(messageId)}/ack`, JSON.stringify({ whatsappId, timestamp }), signal)
  }

  nack(messageId: string, nack: Nack, signal: AbortSignal): Promise<boolean> {
    return this.#insist(`${encodeURIComponent(messageId)}/nack`, JSON.stringify(nack), signal)
  }

  /** True while the message is ours; a failed call says nothing about that. */
  async renew(messageId: string): Promise<boolean> {
    try {
      const { status } = await this.#call(`${encodeURIComponent(messageId)}/renew`, {
        body: '{}',
        timeoutMs: CALL_TIMEOUT_MS,
      })
      return status < 400 || status === 429 || status >= 500
    } catch (error) {
      if (error instanceof Ending) throw error
      return true
    }
  }

  /**
   * Whether the message may be written now: asked right before, because a worker that was frozen may hold a message which was
   * cancelled or given to another meanwhile. No answer within `ms` of our own time means no.
   */
  async mayWrite(messageId: string, ms: number): Promise<boolean> {
    const askedAt = performance.now()
    try {
      const body = JSON.stringify({ beforeWrite: true })
      const { status } = await this.#call(`${encodeURIComponent(messageId)}/renew`, { body, timeoutMs: ms })
      return status < 300 && performance.now() - askedAt < ms
    } catch (error) {
      if (error instanceof Ending) throw error
      return false
    }
  }

  result(commandId: string, body: object, signal: AbortSignal): Promise<boolean> {
    return this.#insist(`commands/${encodeURIComponent(commandId)}/result`, JSON.stringify(body), signal)
  }

  fileResult(commandId: string, file: StoredFile, signal: AbortSignal): Promise<boolean> {
    return this.#insist(`commands/${encodeURIComponent(commandId)}/file`, file, signal, 'application/octet-stream')
  }

  /** Media to send lies on the orchestrator; the token goes nowhere else, and nothing else is fetched directly. Returns the status. */
  async fetchMedia(address: string, toFile: string, maxBytes: number, signal: AbortSignal): Promise<number> {
    const base = this.#settings.outboxUrl
    const url = new URL(address, base)
    if (url.origin !== base.origin) return 403
    const { status } = await send(url, {
      method: 'GET',
      headers: this.#headers('application/json'),
      timeoutMs: 120_000,
      signal,
      maxBytes,
      toFile,
    })
    return status
  }

  #headers(mimetype: string): Record<string, string> {
    return {
      authorization: `Bearer ${this.#settings.workerToken}`,
      'x-epoch': String(this.#settings.epoch),
      'content-type': mimetype,
    }
  }

  async #call(path: string, call: Omit<Call, 'headers'>, mimetype = 'application/json'): Promise<Answer> {
    const url = new URL(this.#settings.outboxUrl)
    url.pathname = `${url.pathname.replace(/\/$/, '')}/${path}`
    const answer = await send(url, { ...call, headers: this.#headers(mimetype) })
    if (isFenced(answer)) throw new Ending('FENCED', 'the server knows a newer epoch')
    if (answer.status < 300) this.#answered()
    return answer
  }

  /** Repeats while the server is away; a clear no (4xx) is an answer too. */
  async #insist(path: string, body: string | StoredFile, signal: AbortSignal, mimetype?: string): Promise<boolean> {
    const timeoutMs = typeof body === 'string' ? CALL_TIMEOUT_MS : FILE_TIMEOUT_MS
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        const { status } = await this.#call(path, { body, timeoutMs, signal }, mimetype)
        if (status < 300) return true
        if (status >= 400 && status < 500 && status !== 401 && status !== 408 && status !== 429) return false
      } catch (error) {
        if (error instanceof Ending) throw error
      }
      await sleep(backoffMs(attempt, RETRY_MIN_MS, RETRY_MAX_MS), signal)
    }
    return false
  }
}
