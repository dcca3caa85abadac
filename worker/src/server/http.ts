// HTTP requests to the orchestrator: direct, keep-alive, a deadline each.
import { createReadStream, createWriteStream } from 'node:fs'
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { pipeline } from 'node:stream/promises'

export type Answer = { status: number; headers: IncomingMessage['headers']; body: Buffer }

/** A body that is read while it is sent. */
export type StoredFile = { path: string; size: number }

export type Call = {
  method?: 'GET' | 'POST'
  headers: Record<string, string>
  body?: string | Uint8Array | StoredFile
  timeoutMs: number
  signal?: AbortSignal
  maxBytes?: number
  /** Where a good answer's body goes instead of memory. */
  toFile?: string
}

const ANSWER_MAX_BYTES = 1 << 20

const agents = {
  'http:': new HttpAgent({ keepAlive: true, maxFreeSockets: 4, timeout: 120_000 }),
  'https:': new HttpsAgent({ keepAlive: true, maxFreeSockets: 4, timeout: 120_000 }),
} as const

type Protocol = keyof typeof agents

export class TooLarge extends Error {
  override name = 'TooLarge'
}

/** Counts what passes and stops at the limit. */
async function* limited(response: IncomingMessage, maxBytes: number): AsyncGenerator<Buffer> {
  let size = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxBytes) {
      response.destroy()
      throw new TooLarge(`the answer is longer than ${maxBytes} bytes`)
    }
    yield chunk
  }
}

async function readBody(response: IncomingMessage, { maxBytes = ANSWER_MAX_BYTES, toFile }: Call): Promise<Buffer> {
  const chunks = limited(response, maxBytes)
  if (toFile === undefined || response.statusCode !== 200) return Buffer.concat(await Array.fromAsync(chunks))
  await pipeline(chunks, createWriteStream(toFile, { mode: 0o600 }))
  return Buffer.alloc(0)
}

function once(url: URL, call: Call): Promise<Answer> {
  const protocol = url.protocol as Protocol
  const send = protocol === 'https:' ? httpsRequest : httpRequest
  const deadline = AbortSignal.timeout(call.timeoutMs)
  const signal = call.signal ? AbortSignal.any([call.signal, deadline]) : deadline
  const { body } = call
  const file = typeof body === 'object' && 'path' in body ? body : undefined
  const length = body === undefined ? {} : { 'content-length': String(file?.size ?? Buffer.byteLength(body as string)) }
  const options: RequestOptions = {
    method: call.method ?? 'POST',
    agent: agents[protocol],
    headers: { ...call.headers, ...length },
    signal,
  }
  return new Promise((resolve, reject) => {
    const request = send(url, options, response => {
      readBody(response, call).then(
        body => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
        reject,
      )
    })
    request.once('error', error => reject(Object.assign(error, { reused: request.reusedSocket })))
    if (file) pipeline(createReadStream(file.path), request).catch(reject)
    else request.end(body)
  })
}

/** Sends a request; a kept-alive connection which the server closed meanwhile is not an error but a reason to dial anew. */
export async function send(url: URL, call: Call): Promise<Answer> {
  try {
    return await once(url, call)
  } catch (error) {
    const { reused, code } = error as NodeJS.ErrnoException & { reused?: boolean }
    if (reused && (code === 'ECONNRESET' || code === 'EPIPE')) return once(url, call)
    throw error
  }
}

export function parseJson(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

const hasCode = ({ body }: Answer, code: string): boolean => JSON.stringify(parseJson(body) ?? {}).includes(`"${code}"`)

export const isFenced = (answer: Answer): boolean => answer.status === 409 && hasCode(answer, 'FENCED')

/** Whether the server refused the time of a signature: one of the two clocks is wrong. */
export const isStale = (answer: Answer): boolean => answer.status === 401 && hasCode(answer, 'STALE_SIGNATURE')
