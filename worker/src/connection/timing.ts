// Backoff with jitter, sleeps that can be aborted, and WhatsApp's times.
export type Random = () => number

/** The pause before attempt `attempt` (from 0): doubles from `minMs` to `maxMs`, and is drawn between half and all of that. */
export function backoffMs(attempt: number, minMs: number, maxMs: number, random: Random = Math.random): number {
  const full = Math.min(maxMs, minMs * 2 ** Math.min(attempt, 30))
  return Math.round(full / 2 + (random() * full) / 2)
}

/** Resolves after `ms`, or at once when the signal is given. Never rejects. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted) return resolve()
    const finish = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal?.addEventListener('abort', finish, { once: true })
  })
}

/** Settles like `promise`, or with `late()` after `ms`. */
export async function within<T>(ms: number, promise: Promise<T>, late: () => T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<T>((resolve, reject) => {
    timer = setTimeout(() => {
      try {
        resolve(late())
      } catch (error) {
        reject(error as Error)
      }
    }, ms)
  })
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer))
}

/** A time of WhatsApp, in seconds, as ours. What is none, or is missing, is now: the server takes no event without a time. */
export function millisOf(seconds: unknown): number {
  const at = Number(seconds) * 1000
  return Number.isSafeInteger(at) && at > 0 ? at : Date.now()
}
