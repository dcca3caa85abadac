// A cache with a size limit and a maximum age. No timers: a timer per entry keeps whole transactions alive.
type Entry = { value: unknown; at: number }

export class Bounded {
  readonly #entries = new Map<string, Entry>()
  readonly #limit: number
  readonly #maxAgeMs: number
  readonly #now: () => number

  constructor(limit: number, maxAgeMs = Number.POSITIVE_INFINITY, now: () => number = Date.now) {
    this.#limit = limit
    this.#maxAgeMs = maxAgeMs
    this.#now = now
  }

  get<T>(key: string): T | undefined {
    const entry = this.#entries.get(key)
    if (!entry) return undefined
    this.#entries.delete(key)
    if (this.#now() - entry.at > this.#maxAgeMs) return undefined
    this.#entries.set(key, entry)
    return entry.value as T
  }

  set(key: string, value: unknown): void {
    this.#entries.delete(key)
    this.#entries.set(key, { value, at: this.#now() })
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#limit) break
      this.#entries.delete(oldest)
    }
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  del(key: string): void {
    this.#entries.delete(key)
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }

  clear(): void {
    this.#entries.clear()
  }

  flushAll(): void {
    this.#entries.clear()
  }

  get size(): number {
    return this.#entries.size
  }
}
