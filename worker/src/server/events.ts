// Events to the server: stored until accepted, in order within each lane; a flood of messages never delays a ping.
import { randomBytes } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { backoffMs, sleep, within } from '../connection/timing.ts'
import { Ending } from '../exit-codes.ts'
import { describeError, type Log } from '../log.ts'
import type { Settings } from '../settings.ts'
import { decode, encode } from '../store/codec.ts'
import type { Database } from '../store/database.ts'
import { EventClock } from './event-clock.ts'
import { type Answer, isFenced, isStale, send } from './http.ts'

export type EventType =
  | 'QR_CODE'
  | 'PAIRING_CODE'
  | 'CONNECTED'
  | 'DISCONNECTED'
  | 'STATUS_CHANGE'
  | 'PING'
  | 'MESSAGE_SENT'
  | 'MESSAGE_FAILED'
  | 'MESSAGE_STATUS'
  | 'MESSAGE_RECEIVED'
  | 'MESSAGE_UNDECRYPTABLE'
  | 'MESSAGE_SENT_ELSEWHERE'
  | 'CALL'
  | 'PROXY_ERROR'
  | 'AUTH_FAILURE'
  | 'ACCOUNT_LIMITS'
  | 'CONTACT_IDENTITY_CHANGED'
  | 'PROTOCOL_DRIFT'
  | 'CLIENT_EXPIRATION'
  | 'PASSKEY'
  | 'LINK_HISTORY'

type Lane = 'state' | 'messages'
/** Without a file there is nothing to number from, and no number is better than one that was used before. */
type Event = {
  id: string
  sequence: number | undefined
  type: EventType
  timestamp: number
  epoch: number
  data: unknown
  /** By the monotonic clock of this process; only of its own events. */
  madeAt?: number
}

/** Worth only as the newest: an unsent older one gives way, and none survives a restart. */
const VOLATILE: ReadonlySet<EventType> = new Set(['PING', 'QR_CODE', 'PAIRING_CODE'])
/** What a connection makes pointless. */
const LINKING: ReadonlySet<EventType> = new Set(['QR_CODE', 'PAIRING_CODE', 'PASSKEY'])

const laneOf = (type: EventType): Lane => (/^(MESSAGE_|CONTACT_|CALL$|LINK_HISTORY$)/.test(type) ? 'messages' : 'state')

const MOST_STATE_EVENTS = 200
const MOST_MESSAGE_EVENTS = 20_000
const SEQUENCE_BLOCK = 1_000
const ATTEMPT_TIMEOUT_MS = 15_000
const RETRY_MIN_MS = 250
const RETRY_MAX_MS = 30_000

/** What to do after an answer. A refusal that repeating cannot cure must not block the lane for ever. */
export function judge(status: number, fenced: boolean): 'accepted' | 'fenced' | 'drop' | 'retry' | 'retry slowly' {
  if (fenced) return 'fenced'
  if ((status >= 200 && status < 300) || status === 409) return 'accepted'
  if (status === 401) return 'retry slowly'
  if (status === 400 || status === 403 || status === 413 || status === 422) return 'drop'
  return 'retry'
}

/** Sequence numbers rise over restarts; they are taken from the file in blocks, so a ping costs no write. */
function makeCounter({ prepare, write }: Database): () => number {
  let next = 1
  let last = 0
  return () => {
    if (next > last) {
      write(() => {
        next = Number(prepare("SELECT value FROM meta WHERE name = 'sequence'").get()?.value ?? 0) + 1
        last = next + SEQUENCE_BLOCK - 1
        prepare("UPDATE meta SET value = ? WHERE name = 'sequence'").run(last)
      })
    }
    return next++
  }
}

type EventSettings = Pick<Settings, 'sessionId' | 'epoch' | 'webhookUrl' | 'webhookSecret' | 'workerToken' | 'fenceMs'>

export type Hooks = {
  answered: () => void
  fenced: (ending: Ending) => void
  /** The server has taken a ping that was made at this time of the monotonic clock. */
  pinged?: (madeAt: number) => void
}

export class Events {
  readonly #settings: EventSettings
  readonly #log: Log
  readonly #hooks: Hooks
  readonly #database: Database | undefined
  readonly #webhook: Webhook
  readonly #clock = new EventClock()
  readonly #nextSequence: () => number | undefined
  readonly #state: Event[] = []
  readonly #stopped = new AbortController()
  readonly #wake: Record<Lane, () => void> = { state: () => undefined, messages: () => undefined }
  readonly #idle: Record<Lane, boolean> = { state: true, messages: true }
  #unsaved: { lane: Lane; event: Event }[] = []
  #alongside: (() => void)[] = []

  /** Without a database (unreadable credentials) events live in memory only. */
  constructor(settings: EventSettings, log: Log, hooks: Hooks, database?: Database) {
    this.#settings = settings
    this.#log = log
    this.#hooks = hooks
    this.#database = database
    this.#webhook = new Webhook(settings.webhookSecret)
    this.#nextSequence = database ? makeCounter(database) : () => undefined
    // An older worker's reports of its own state are outdated; this one will report its own.
    if (database)
      this.#state = [...this.#stored('state', MOST_STATE_EVENTS)].filter(event => event.epoch === settings.epoch)
    database
      ?.prepare("DELETE FROM events WHERE lane = 'state' AND sequence < ?")
      .run(this.#state[0]?.sequence ?? Number.MAX_SAFE_INTEGER)
    void this.#run('state')
    void this.#run('messages')
  }

  emit(type: EventType, data: object): void {
    try {
      this.#take(type, data)
    } catch (error) {
      if (!(error instanceof Ending)) throw error
      this.#hooks.fenced(error)
    }
  }

  /** Runs `work` in the transaction that stores the events emitted until then. */
  alongside(work: () => void): void {
    if (!this.#database) return
    this.#scheduleFlush()
    this.#alongside.push(work)
  }

  #take(type: EventType, data: object): void {
    const event: Event = {
      madeAt: performance.now(),
      id: `evt_${randomBytes(12).toString('hex')}`,
      sequence: this.#nextSequence(),
      type,
      timestamp: this.#clock.now(),
      epoch: this.#settings.epoch,
      data,
    }
    const lane = laneOf(type)
    if (lane === 'state') this.#pushState(event)
    if (!VOLATILE.has(type)) this.#save(lane, event)
    this.#wake[lane]()
  }

  /** Writes what waits for the end of the turn. */
  flush(): void {
    const rows = this.#unsaved
    const alongside = this.#alongside
    this.#unsaved = []
    this.#alongside = []
    if (!(rows.length || alongside.length) || !this.#database) return
    const { prepare, seal, write } = this.#database
    const insert = prepare('INSERT INTO events (sequence, lane, type, value) VALUES (?, ?, ?, ?)')
    try {
      write(() => {
        for (const { lane, event } of rows)
          insert.run(event.sequence ?? null, lane, event.type, seal.close(`events/${event.sequence}`, encode(event)))
        for (const work of alongside) work()
        this.#forgetOldest()
      })
    } catch (error) {
      if (!(error instanceof Ending)) throw error
      this.#hooks.fenced(error)
    }
    this.#wake.messages()
  }

  /** Waits until everything is accepted, but no longer than `ms`; then sends nothing more. What is left is sent by the next start. */
  async close(ms: number): Promise<void> {
    this.flush()
    const { signal } = this.#stopped
    const isBusy = (): boolean => !this.#idle.state || !this.#idle.messages || this.#state.length > 0
    const settled = async (): Promise<void> => {
      // Once stopped, a sleep takes no time: a loop of those would leave no room for anything else, our end included.
      while (isBusy() && !signal.aborted) await sleep(20, signal)
    }
    await within(ms, settled(), () => undefined)
    this.#stopped.abort()
    this.#wake.state()
    this.#wake.messages()
  }

  #pushState(event: Event): void {
    const outdated = (other: Event): boolean =>
      (VOLATILE.has(event.type) && other.type === event.type) || (event.type === 'CONNECTED' && LINKING.has(other.type))
    // The first is being sent right now and must stay where it is.
    for (let index = this.#state.length - 1; index >= 1; index--)
      if (outdated(this.#state[index] as Event)) this.#state.splice(index, 1)
    if (this.#state.length >= MOST_STATE_EVENTS) this.#forget(this.#state.splice(1, 1)[0])
    this.#state.push(event)
  }

  #save(lane: Lane, event: Event): void {
    if (!this.#database) return
    this.#scheduleFlush()
    this.#unsaved.push({ lane, event })
    if (lane === 'state') this.flush() // few, and each tells of something that may be followed by our end
  }

  #scheduleFlush(): void {
    if (this.#unsaved.length === 0 && this.#alongside.length === 0) setImmediate(() => this.flush())
  }

  /** Keeps the message lane bounded: receipts go first, because a later one or a look-up can make good for them. */
  #forgetOldest(): void {
    const { prepare } = this.#database as Database
    const count = Number(prepare("SELECT count(*) AS n FROM events WHERE lane = 'messages'").get()?.n ?? 0)
    if (count <= MOST_MESSAGE_EVENTS) return
    const remove = prepare(
      "DELETE FROM events WHERE sequence IN (SELECT sequence FROM events WHERE lane = 'messages' ORDER BY type = 'MESSAGE_STATUS' DESC, sequence LIMIT ?)",
    )
    remove.run(count - MOST_MESSAGE_EVENTS)
    this.#log.error('events.dropped', { count: count - MOST_MESSAGE_EVENTS })
  }

  *#stored(lane: Lane, limit: number): Generator<Event> {
    if (!this.#database) return
    const { prepare, seal } = this.#database
    const rows = prepare('SELECT sequence, value FROM events WHERE lane = ? ORDER BY sequence LIMIT ?').all(lane, limit)
    for (const row of rows) yield decode(seal.open(`events/${row.sequence}`, row.value as Uint8Array)) as Event
  }

  #next(lane: Lane): Event | undefined {
    return lane === 'state' ? this.#state[0] : this.#stored('messages', 1).next().value
  }

  #forget(event: Event | undefined): void {
    if (!event || !this.#database || VOLATILE.has(event.type)) return
    const { prepare, onCommit } = this.#database
    if (this.#stopped.signal.aborted) return
    prepare('DELETE FROM events WHERE sequence = ?').run(event.sequence ?? null)
    onCommit()
  }

  async #run(lane: Lane): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const event = this.#next(lane)
      this.#idle[lane] = !event
      if (!event) {
        await new Promise<void>(resolve => (this.#wake[lane] = resolve))
        continue
      }
      this.#wake[lane] = () => undefined
      const settled = (await this.#isDurable(lane)) && (await this.#deliver(event))
      if (!settled) return
      if (lane === 'state') this.#state.shift()
      this.#forget(event)
    }
  }

  /** What an event of a message tells must not be forgotten afterwards. False when we are to stop. */
  async #isDurable(lane: Lane): Promise<boolean> {
    if (lane === 'state') return true
    try {
      await this.#database?.durable()
      return !this.#stopped.signal.aborted
    } catch {
      return false
    }
  }

  /** Behind a fence the server must hear us soon after it is back. */
  get #longestRetryMs(): number {
    const { fenceMs } = this.#settings
    return fenceMs === 0 ? RETRY_MAX_MS : Math.min(RETRY_MAX_MS, fenceMs / 4)
  }

  /** Repeats until the server takes the event or refuses it for good. False when we are to stop. */
  async #deliver(event: Event): Promise<boolean> {
    for (let attempt = 0; !this.#stopped.signal.aborted; attempt++) {
      const verdict = await this.#attempt(event)
      if (verdict === 'accepted') return true
      if (verdict === 'drop') {
        this.#log.error('event.refused', { type: event.type, sequence: event.sequence })
        return true
      }
      if (verdict === 'fenced') {
        this.#hooks.fenced(new Ending('FENCED', 'the server knows a newer epoch'))
        return false
      }
      await sleep(
        backoffMs(verdict === 'retry slowly' ? Math.max(attempt, 5) : attempt, RETRY_MIN_MS, this.#longestRetryMs),
        this.#stopped.signal,
      )
    }
    return false
  }

  async #attempt(event: Event): Promise<ReturnType<typeof judge>> {
    try {
      const isState = laneOf(event.type) === 'state'
      const timestamp = isState ? this.#clock.timeToReport(event.timestamp) : event.timestamp
      const answer = await this.#post({ ...event, timestamp })
      const verdict = judge(answer.status, isFenced(answer))
      if (verdict === 'accepted') {
        this.#hooks.answered()
        if (event.type === 'PING' && event.madeAt !== undefined) this.#hooks.pinged?.(event.madeAt)
        if (isState) this.#clock.accepted(timestamp)
      } else this.#log.warn('event.not_taken', { type: event.type, status: answer.status })
      return isStale(answer) && this.#clock.adjust(answer) ? 'retry' : verdict
    } catch (error) {
      if (!this.#stopped.signal.aborted)
        this.#log.warn('event.not_delivered', { type: event.type, error: describeError(error) })
      return 'retry'
    }
  }

  /** Signed anew for each attempt, and in the name of the epoch that delivers: an older one would be refused. */
  #post({ id, sequence, type, timestamp, data }: Event): Promise<Answer> {
    const { sessionId, epoch, workerToken } = this.#settings
    const body = JSON.stringify({ sessionId, type, timestamp, epoch, sequence, data })
    const now = new Date(this.#clock.serverNow())
    const headers = {
      // Tells before the body is read whose it is: a signature does so only afterwards.
      authorization: `Bearer ${workerToken}`,
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': this.#webhook.sign(id, now, body),
    }
    return send(this.#settings.webhookUrl, {
      headers,
      body,
      timeoutMs: ATTEMPT_TIMEOUT_MS,
      signal: this.#stopped.signal,
    })
  }
}
