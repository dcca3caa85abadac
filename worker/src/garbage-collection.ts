// Collects garbage when idle: once after connecting, and whenever the process has grown.
/** What a process has and has used at one moment. */
export type Look = { residentBytes: number; cpuMicros: number }

export type Tidier = { collect: () => void; look: () => Look }

/** A collection takes about 50 ms of CPU: when there is nothing to do this much is worth it, and otherwise that much. */
const GROWN_BYTES = 3 << 20
const GROWN_MUCH_BYTES = 12 << 20
const IDLE_MICROS = 100_000

/**
 * Whether to collect now, given how it was after the last collection and at the last look.
 * V8 does not before the heap has half of its limit, which is four times what a worker needs.
 */
export function isWorthIt(residentBytesThen: number, last: Look, now: Look): boolean {
  const isIdle = now.cpuMicros - last.cpuMicros < IDLE_MICROS
  return now.residentBytes - residentBytesThen > (isIdle ? GROWN_BYTES : GROWN_MUCH_BYTES)
}

/** Collects at once, and from then on after `everyMs` of rest where it is worth it. Returns a function that stops it. */
export function tidyUp({ collect, look }: Tidier, everyMs: number): () => void {
  collect()
  let last = look()
  let residentBytes = last.residentBytes
  const timer = setInterval(() => {
    const now = look()
    const isWorth = isWorthIt(residentBytes, last, now)
    if (isWorth) collect()
    last = isWorth ? look() : now
    if (isWorth || now.residentBytes < residentBytes) residentBytes = last.residentBytes
  }, everyMs).unref()
  return () => clearInterval(timer)
}
