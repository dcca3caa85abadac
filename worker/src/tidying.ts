// Gives memory back when there is time for it: once after connecting, and again whenever a busy spell has left the process larger.
/** What a process has and has used at one moment. */
export type Look = { residentBytes: number; cpuMicros: number }

export type Tidier = { collect: () => void; look: () => Look }

/** V8 collects by itself while it works; only what it leaves lying about when the work is over is worth a collection of ours. */
const GROWN_BYTES = 3 << 20
/** A collection takes about 50 ms of CPU, which must not come between a message and its answer. */
const IDLE_MICROS = 300_000

/** Whether to collect now, given how it was after the last collection and at the last look. */
export function isWorthIt(residentBytesThen: number, last: Look, now: Look): boolean {
  const isIdle = now.cpuMicros - last.cpuMicros < IDLE_MICROS
  return isIdle && now.residentBytes - residentBytesThen > GROWN_BYTES
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
