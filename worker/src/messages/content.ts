// Turns a claimed message into what Baileys sends; media is downloaded from the orchestrator into a private file first.
import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AnyMessageContent, WAUrlInfo } from 'baileys'
import { TooLarge } from '../server/http.ts'
import type { Card, Claimed, Outbox } from '../server/outbox.ts'
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
  const { viewOnce, seconds, width, height, animated } = media ?? {}
  // An empty thumbnail keeps Baileys from looking for an image library or ffmpeg, which the worker does not have.
  const jpegThumbnail = media?.thumbnail ?? ''
  if (kind === 'image') return { image: { url }, mimetype, caption, jpegThumbnail, width, height, viewOnce }
  if (kind === 'video') return { video: { url }, mimetype, caption, jpegThumbnail, width, height, seconds, viewOnce }
  if (kind === 'sticker') return { sticker: { url }, mimetype, width, height, isAnimated: animated }
  if (kind === 'voice') {
    const waveform = new Uint8Array(Buffer.from(media?.waveform ?? '', 'base64'))
    return { audio: { url }, mimetype, ptt: true, seconds: seconds ?? 1, waveform, viewOnce } as AnyMessageContent
  }
  if (kind === 'audio') return { audio: { url }, mimetype, seconds: seconds ?? 0 }
  return { document: { url }, mimetype, caption, fileName: media?.filename ?? 'file' }
}

/** What a card may not contain: the lines of a vCard are its fields. */
const asLine = (text: string): string => text.replace(/[\r\n]+/g, ' ').replace(/([\\,;])/g, '\\$1')

function vcard({ name, phones }: Card): string {
  const numbers = phones.map(phone => `TEL;type=CELL;type=VOICE;waid=${phone}:+${phone}`)
  const line = asLine(name)
  return ['BEGIN:VCARD', 'VERSION:3.0', `N:;${line};;;`, `FN:${line}`, ...numbers, 'END:VCARD'].join('\n')
}

function cardsContent(cards: Card[]): AnyMessageContent {
  const contacts = cards.map(card => ({ displayName: card.name, vcard: vcard(card) }))
  return { contacts: { displayName: cards.length === 1 ? cards[0]?.name : `${cards.length} contacts`, contacts } }
}

/** As the server read it. Without one Baileys is told so, or it would look for a library that reads the page itself. */
const linkPreview = ({ url, title, description, thumbnail }: NonNullable<Claimed['preview']>): WAUrlInfo => ({
  'canonical-url': url,
  'matched-text': url,
  title,
  ...(description ? { description } : {}),
  ...(thumbnail ? { jpegThumbnail: Buffer.from(thumbnail, 'base64') } : {}),
})

/** What is sent without a file; undefined for a file, or where a part is missing. */
function plainContent({ kind, text, preview, location, contacts, poll }: Claimed): AnyMessageContent | undefined {
  if (kind === 'text' && text) return { text, linkPreview: preview ? linkPreview(preview) : null }
  if (kind === 'location' && location) {
    const { latitude, longitude, name, address } = location
    return { location: { degreesLatitude: latitude, degreesLongitude: longitude, name, address } }
  }
  if (kind === 'contacts' && contacts?.length) return cardsContent(contacts)
  if (kind === 'poll' && poll && text)
    return { poll: { name: text, values: poll.options, selectableCount: poll.selectable } }
  return undefined
}

/** Makes the content, or says why it cannot be made. The caller disposes of it after sending. */
export async function prepare(message: Claimed, outbox: Outbox, signal: AbortSignal): Promise<Prepared | Outcome> {
  const { kind, media } = message
  const plain = plainContent(message)
  if (plain) return { content: plain, dispose: nothing }
  if (!media?.url || !['image', 'video', 'audio', 'voice', 'sticker', 'document'].includes(kind))
    return failed('INVALID_MESSAGE', `unknown or empty kind ${kind}`, 'give up')
  const path = await fetchToFile(media.url, outbox, signal)
  if (typeof path !== 'string') return path
  return { content: mediaContent(message, path), dispose: () => rm(path, { force: true }) }
}
