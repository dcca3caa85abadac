// The WhatsApp Web version we announce: the newest, asked for through the proxy, stored in a file, never older than the library's.
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { type Agent, get } from 'node:https'
import { join } from 'node:path'
import { DEFAULT_CONNECTION_CONFIG, type WAVersion } from 'baileys'
import { describeError, type Log } from '../log.ts'
import { ProxyError } from './proxy.ts'

const MAX_AGE_MS = 24 * 60 * 60_000
const TIMEOUT_MS = 9_000
const MAX_BYTES = 4 << 20
const ADDRESS = 'https://web.whatsapp.com/sw.js'
/** The page is refused to clients that do not look like a browser opening it. */
const HEADERS = {
  'sec-fetch-site': 'none',
  'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36',
}

export function parseRevision(page: string): number | undefined {
  const found = /\\?"client_revision\\?":\s*(\d+)/.exec(page)?.[1]
  return found ? Number(found) : undefined
}

/** The newest of what is known. */
export function newest(own: WAVersion, revision: number | undefined): WAVersion {
  return revision !== undefined && revision > own[2] ? [own[0], own[1], revision] : own
}

function fetchRevision(agent: Agent | undefined): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = get(ADDRESS, { agent, headers: HEADERS, signal: AbortSignal.timeout(TIMEOUT_MS) }, response => {
      let page = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        page += chunk
        if (page.length > MAX_BYTES) response.destroy()
      })
      response.on('close', () => resolve(parseRevision(page)))
      response.on('error', reject)
    })
    request.on('error', reject)
  })
}

type Remembered = { revision: number | null; at: number }

export class Version {
  readonly #file: string
  readonly #agent: Agent | undefined
  readonly #log: Log
  readonly #least: WAVersion

  /** `known` is the newest revision that the server has seen accepted: another session's proxy may reach what ours does not. */
  constructor(directory: string, agent: Agent | undefined, known: number, log: Log) {
    this.#file = join(directory, 'version.json')
    this.#agent = agent
    this.#log = log
    this.#least = newest(DEFAULT_CONNECTION_CONFIG.version as WAVersion, known)
  }

  /** What to connect with. Looks it up once a day; a failed look-up falls back, except that a proxy failure is reported. */
  async current(): Promise<WAVersion> {
    const remembered = this.#read()
    const fresh = remembered && Date.now() - remembered.at < MAX_AGE_MS
    return newest(this.#least, fresh ? (remembered.revision ?? undefined) : await this.#lookUp(remembered))
  }

  /** Asks again whatever is remembered, after WhatsApp has refused our version. */
  async refreshed(): Promise<WAVersion> {
    return newest(this.#least, await this.#lookUp(this.#read()))
  }

  async #lookUp(remembered: Remembered | undefined): Promise<number | undefined> {
    try {
      const revision = await fetchRevision(this.#agent)
      const known = revision ?? remembered?.revision ?? null
      this.#write({ revision: known, at: Date.now() })
      return known ?? undefined
    } catch (error) {
      if (error instanceof ProxyError) throw error
      this.#log.warn('version.not_found', { error: describeError(error) })
      return remembered?.revision ?? undefined
    }
  }

  #read(): Remembered | undefined {
    try {
      return JSON.parse(readFileSync(this.#file, 'utf8')) as Remembered
    } catch {
      return undefined
    }
  }

  #write(value: Remembered): void {
    writeFileSync(`${this.#file}.new`, JSON.stringify(value), { mode: 0o600 })
    renameSync(`${this.#file}.new`, this.#file)
  }
}
