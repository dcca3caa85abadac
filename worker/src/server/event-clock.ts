// The time of events. It never runs backwards, and follows the server's clock when that refuses ours.
import type { Answer } from './http.ts'

export class EventClock {
  #lastMs = 0
  #readAtMs = performance.now()
  #offsetMs = 0
  #acceptedMs = 0

  /** When an event happens. Later ones are never earlier, also when the machine's clock is set back. */
  now(): number {
    const readAtMs = performance.now()
    // Both are needed: after a machine's sleep only the date is right, after a correction only what has passed.
    this.#lastMs = Math.max(Date.now(), this.#lastMs + readAtMs - this.#readAtMs)
    this.#readAtMs = readAtMs
    return Math.floor(this.#lastMs)
  }

  /** What to sign with: the time of the server, as far as we know it. */
  serverNow(): number {
    return this.now() + this.#offsetMs
  }

  /** The time to report. The server sorts by it, so it is never in its future and never before what it accepted already. */
  timeToReport(happenedMs: number): number {
    return Math.max(this.#acceptedMs, Math.min(happenedMs, this.serverNow()))
  }

  accepted(reportedMs: number): void {
    this.#acceptedMs = reportedMs
  }

  /** The server refused a signature for its time: takes over the server's. False when the answer does not tell it. */
  adjust({ headers }: Answer): boolean {
    const serverMs = Date.parse(headers.date ?? '')
    if (Number.isNaN(serverMs)) return false
    this.#offsetMs = serverMs - this.now()
    return true
  }
}
