// Turns a claimed message into what Baileys sends; media is downloaded from the orchestrator into a private file first.
import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AnyMessageContent } from 'baileys'
import { TooLarge } from './http.ts'
import type { Claimed, Outbox } from './outbox.ts'
import { failed, type Outcome } from './send-outcomes.ts'

const MEDIA_MAX_BYTES = 100 << 20

export type Prepared = { content: AnyMessageContent; dispose: () => Promise<void> }

const nothing = async (): Promise<void> => undefined

const unavailable = (text: string, retryable: 'retry' | 'give up'): Outcome =>
  failed('MEDIA_UNAVAILABLE', text, retryable)

async function fetchToFile(address: string, outbox: Outbox, signal: AbortSignal): Promise<string | Outcome> {
  const path = join(tmpdir(), `media-${randomUUID()}`)
  try {
    const status = await outbox.fetchMedia(address, path, MEDIA_MAX_BYTES, signal)
    return status === 200
      ? path
      : unavailable(`the orchestrator answered ${status}`, status >= 500 ? 'retry' : 'give up')
  } catch (error) {
    await rm(path, { force: true })
    return error instanceof TooLarge
      ? unavailable('the file is too large', 'give up')
      : unavailable('the file could not be fetched', 'retry')
  }
}

function mediaContent({ kind, media, text }: Claimed, url: string): AnyMessageContent {
  const mimetype = media?.mimetype ?? 'application/octet-stream'
  const caption = media?.caption ?? text
  // An empty thumbnail keeps Baileys from looking for an image library or ffmpeg, which the worker does not have.
  if (kind === 'image') return { image: { url }, mimetype, caption, jpegThumbnail: '' }
  if (kind === 'video') return { video: { url }, mimetype, caption, jpegThumbnail: '' }
  if (kind === 'audio') return { audio: { url }, mimetype, seconds: 0 }
  return { document: { url }, mimetype, caption, fileName: media?.filename ?? 'file' }
}

/** Makes the content, or says why it cannot be made. The caller disposes of it after sending. */
export async function prepare(message: Claimed, outbox: Outbox, signal: AbortSignal): Promise<Prepared | Outcome> {
  const { kind, text, location, media } = message
  if (kind === 'text')
    return text ? { content: { text }, dispose: nothing } : failed('INVALID_MESSAGE', 'there is no text', 'give up')
  if (kind === 'location') {
    if (!location) return failed('INVALID_MESSAGE', 'there is no location', 'give up')
    const { latitude, longitude, name, address } = location
    return {
      content: { location: { degreesLatitude: latitude, degreesLongitude: longitude, name, address } },
      dispose: nothing,
    }
  }
  if (!media?.url || !['image', 'video', 'audio', 'document'].includes(kind))
    return failed('INVALID_MESSAGE', `unknown or empty kind ${kind}`, 'give up')
  const path = await fetchToFile(media.url, outbox, signal)
  if (typeof path !== 'string') return path
  return { content: mediaContent(message, path), dispose: () => rm(path, { force: true }) }
}
