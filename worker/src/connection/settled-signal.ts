// Signals once that connecting is over, so that the loader can collect garbage.
import type { EventEmitter } from 'node:events'

/** The event on `process` for which the loader waits. */
export const SETTLED = 'settled'

/** Call the result whenever the connection opens; the event comes `afterMs` later, unless it opens again meanwhile. */
export function makeSettling(afterMs: number, target: EventEmitter = process): () => void {
  let timer: NodeJS.Timeout | undefined
  return () => {
    clearTimeout(timer)
    timer = setTimeout(() => target.emit(SETTLED), afterMs).unref()
  }
}
