// Self-fencing: without a sign from the server for FENCE_MS the device is off WhatsApp, because the server may have started
// another worker where it cannot prove that this one has ended.

export class Fence {
  readonly #fenceMs: number
  readonly #now: () => number
  #heldUntil = 0
  #timer: NodeJS.Timeout | undefined
  #waiters: (() => void)[] = []
  /** Called when the time is over. */
  onLost: () => void = () => undefined

  /** 0 means no fence. The clock is this machine's own and monotonic; no two clocks are compared. */
  constructor(fenceMs: number, now: () => number = () => performance.now()) {
    this.#fenceMs = fenceMs
    this.#now = now
  }

  get isHeld(): boolean {
    return this.#fenceMs === 0 || this.#now() < this.#heldUntil
  }

  /**
   * The server has taken a ping. It counts from when the ping was made and not from the answer: the server starts another
   * worker FENCE_MS after it took the last one, which was not earlier.
   */
  signed(madeAt: number): void {
    if (this.#fenceMs === 0) return
    this.#heldUntil = Math.max(this.#heldUntil, madeAt + this.#fenceMs)
    this.#watch()
    if (this.isHeld) for (const resolve of this.#waiters.splice(0)) resolve()
  }

  /** Resolves when the device may be connected. */
  held(): Promise<void> {
    return this.isHeld ? Promise.resolve() : new Promise(resolve => this.#waiters.push(resolve))
  }

  #watch(): void {
    clearTimeout(this.#timer)
    const leftMs = this.#heldUntil - this.#now()
    if (leftMs <= 0) this.onLost()
    else this.#timer = setTimeout(() => this.#watch(), Math.ceil(leftMs)).unref()
  }
}
