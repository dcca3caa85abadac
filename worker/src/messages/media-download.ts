// Files that people sent: downloaded from WhatsApp, decrypted and checked into a private file.
import { createDecipheriv, createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { getMediaKeys, type MediaType, type SocketConfig, type WAMessage, type WASocket } from 'baileys'
import { within } from '../connection/timing.ts'
import { describeError, type Log } from '../log.ts'
import type { Messages } from '../store/message-store.ts'
import { type FileKind, filePartOf } from './incoming-content.ts'

/** The only host that is dialled. A message has an address of its own as well, and its sender chooses that. */
const HOST = 'mmg.whatsapp.net'
const ORIGIN = 'https://web.whatsapp.com'
const LONGEST_PATH = 2_048
const DOWNLOAD_MS = 100_000
const REUPLOAD_MS = 30_000
/** Each file is written to the disk whole before the server gets it. */
const MOST_AT_ONCE = 2
const MAC_BYTES = 10
/** What AES adds to a file, and its MAC. */
const OVERHEAD = 16 + MAC_BYTES
/** WhatsApp has dropped the file: the phone may have it. */
const DROPPED: ReadonlySet<number> = new Set([403, 404, 410])

const TYPES: Record<FileKind, MediaType> = {
  image: 'image',
  video: 'video',
  voice: 'audio',
  audio: 'audio',
  document: 'document',
  sticker: 'sticker',
}

export type Downloaded = { path: string; size: number }

/** Its message is a code, which the server shows. */
class MediaError extends Error {}

class Dropped extends MediaError {}

/** Where a file is. What does not begin with a slash could be the end of another host's name. */
export function mediaUrl(directPath: string | null | undefined): URL {
  const isPath = directPath?.startsWith('/') && directPath.length <= LONGEST_PATH
  const url = isPath ? URL.parse(`https://${HOST}${directPath}`) : null
  if (url?.host !== HOST) throw new MediaError('MEDIA_INVALID')
  return url
}

type Part = NonNullable<ReturnType<typeof filePartOf>>['part']
type Keys = { iv: Uint8Array; cipherKey: Uint8Array; macKey?: Uint8Array }

const isSame = (found: Uint8Array, wanted: Uint8Array | null | undefined): boolean =>
  !!wanted && found.length === wanted.length && timingSafeEqual(found, wanted)

/** Decrypts what passes; `check` throws where it is not, to the last byte, what the sender has encrypted. */
export function decryption(part: Part, { iv, cipherKey, macKey }: Keys, maxBytes: number) {
  const [encrypted, plain] = [createHash('sha256'), createHash('sha256')]
  const mac = createHmac('sha256', macKey ?? '').update(iv)
  const aes = createDecipheriv('aes-256-cbc', cipherKey, iv)
  let [held, total, size] = [Buffer.alloc(0), 0, 0]
  const emit = (bytes: Buffer): Buffer => {
    plain.update(bytes)
    size += bytes.length
    return bytes
  }
  async function* decrypt(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      total += chunk.length
      if (total > maxBytes + OVERHEAD) throw new MediaError('MEDIA_TOO_LARGE')
      encrypted.update(chunk)
      const all = Buffer.concat([held, chunk])
      const body = all.subarray(0, Math.max(0, all.length - MAC_BYTES))
      held = all.subarray(body.length)
      mac.update(body)
      yield emit(aes.update(body))
    }
    try {
      yield emit(aes.final())
    } catch {
      throw new MediaError('MEDIA_CORRUPT')
    }
  }
  const check = (): number => {
    const isWhole =
      isSame(mac.digest().subarray(0, MAC_BYTES), held) &&
      isSame(encrypted.digest(), part.fileEncSha256) &&
      isSame(plain.digest(), part.fileSha256)
    if (!isWhole) throw new MediaError('MEDIA_CORRUPT')
    return size
  }
  return { decrypt, check }
}

export class MediaDownload {
  readonly #messages: Messages
  readonly #fetchOptions: SocketConfig['options']
  readonly #log: Log
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(messages: Messages, fetchOptions: SocketConfig['options'], log: Log) {
    this.#messages = messages
    this.#fetchOptions = fetchOptions
    this.#log = log
  }

  /** Downloads the file of a stored message; the caller removes it. Fails with a code. */
  async run(whatsappId: string, sock: WASocket, maxBytes: number): Promise<Downloaded> {
    if (this.#running >= MOST_AT_ONCE) await new Promise<void>(resolve => this.#waiting.push(resolve))
    this.#running++
    try {
      return await this.#fetch(whatsappId, sock, maxBytes)
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }

  async #fetch(whatsappId: string, sock: WASocket, maxBytes: number): Promise<Downloaded> {
    const message = this.#messages.findReceived(whatsappId)
    if (!message) throw new MediaError('UNKNOWN_MESSAGE')
    try {
      return await this.#download(message, maxBytes)
    } catch (error) {
      if (!(error instanceof Dropped)) throw error
    }
    this.#log.info('media.asked_again', {})
    return this.#download(await this.#reuploaded(message, sock), maxBytes)
  }

  /** Has the phone upload the file again; Baileys would wait for it without end. */
  async #reuploaded(message: WAMessage, sock: WASocket): Promise<WAMessage> {
    try {
      const renewed = await within(REUPLOAD_MS, sock.updateMediaMessage(message), () => undefined)
      if (!renewed) throw new Error('the phone does not answer')
      this.#messages.replaceReceived(renewed)
      return renewed
    } catch (error) {
      this.#log.warn('media.not_uploaded_again', { error: describeError(error) })
      throw new MediaError('MEDIA_EXPIRED')
    }
  }

  async #download({ message }: WAMessage, maxBytes: number): Promise<Downloaded> {
    const file = filePartOf(message)
    if (!file?.part.mediaKey?.length) throw new MediaError('MEDIA_INVALID')
    const url = mediaUrl(file.part.directPath)
    const { decrypt, check } = decryption(
      file.part,
      (await getMediaKeys(file.part.mediaKey, TYPES[file.kind])) as Keys,
      maxBytes,
    )
    const path = join(tmpdir(), `media-${randomUUID()}`)
    try {
      await pipeline(await this.#open(url), decrypt, createWriteStream(path, { mode: 0o600 }))
      return { path, size: check() }
    } catch (error) {
      await rm(path, { force: true })
      if (error instanceof MediaError) throw error
      this.#log.warn('media.unreachable', { error: describeError(error) })
      throw new MediaError('MEDIA_UNREACHABLE')
    }
  }

  async #open(url: URL): Promise<AsyncIterable<Uint8Array>> {
    const { dispatcher } = (this.#fetchOptions ?? {}) as { dispatcher?: object }
    const response = await fetch(url, {
      ...(dispatcher ? { dispatcher } : {}),
      headers: { Origin: ORIGIN },
      redirect: 'error',
      signal: AbortSignal.timeout(DOWNLOAD_MS),
    } as RequestInit)
    if (DROPPED.has(response.status)) throw new Dropped('MEDIA_EXPIRED')
    if (!response.ok || !response.body) throw new Error(`WhatsApp answered ${response.status}`)
    return response.body as unknown as AsyncIterable<Uint8Array>
  }
}
