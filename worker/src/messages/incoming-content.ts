// What somebody sent: one closed union, read from WhatsApp's protobuf. Whoever writes to us chooses every byte of it, so
// each text and list has a limit: an event that is too long for the server would be lost with the message.
import { extractMessageContent, getContentType, isJidGroup, proto, type WAMessageKey } from 'baileys'

const LONGEST_TEXT = 65_536
const LONGEST_NAME = 512
const MOST_CARDS = 50
const MOST_OPTIONS = 20
const MOST_MENTIONS = 100
/** Bytes; those of WhatsApp's own clients have a few thousand. */
const LONGEST_THUMBNAIL = 16_384

export type FileKind = 'image' | 'video' | 'voice' | 'audio' | 'document' | 'sticker'

export type File = {
  mimetype?: string
  size?: number
  filename?: string
  seconds?: number
  width?: number
  height?: number
  pages?: number
  /** A sticker that moves, a video shown as a GIF, and one that was recorded in a circle. */
  animated?: true
  gif?: true
  round?: true
}

export type Place = { latitude: number; longitude: number; name?: string; address?: string; accuracyM?: number }
export type Card = { name: string; phones: string[] }
/** Another message, by WhatsApp's id. `fromMe`: it is the account's own. */
export type Target = { whatsappId: string; fromMe?: true }

export type Content =
  | { kind: 'text'; text: string }
  | { kind: FileKind; text?: string; media: File }
  | { kind: 'location' | 'live_location'; text?: string; location?: Place }
  | { kind: 'contacts'; contacts: Card[] }
  | { kind: 'poll'; text: string; poll: { options: string[]; selectable: number } }
  | { kind: 'vote'; target: Target; vote?: { options: string[] } }
  | { kind: 'reaction'; text: string; target: Target }
  | { kind: 'edit'; text: string; target: Target }
  | { kind: 'deletion'; target: Target }
  | { kind: 'button_answer' | 'list_answer'; text: string; choice: string }
  | { kind: 'other'; name: string; text?: string }

/** What may accompany a message of any kind. Jids here are as WhatsApp names them. */
export type Context = {
  quote?: { whatsappId: string; jid?: string; kind?: string; text?: string }
  mentioned?: string[]
  forwarded?: true
  viewOnce?: true
  album?: string
  ad?: { title?: string; text?: string; url?: string; clickId?: string }
}

/** Housekeeping between devices, and the head of an album, which is nothing without its files. */
const SILENT = new Set([
  'senderKeyDistributionMessage',
  'messageContextInfo',
  'keepInChatMessage',
  'pinInChatMessage',
  'albumMessage',
  'encReactionMessage',
  'secretEncryptedMessage',
])

const WRAPPERS_OF_VIEW_ONCE = ['viewOnceMessage', 'viewOnceMessageV2', 'viewOnceMessageV2Extension'] as const
/** Those that Baileys does not unwrap. */
const MORE_WRAPPERS = ['lottieStickerMessage', 'pollCreationMessageV4', 'botInvokeMessage', 'ephemeralMessage'] as const

type Message = proto.IMessage
type Optional<T> = T | null | undefined

const clip = (text: Optional<string>, most = LONGEST_NAME): string | undefined => text?.slice(0, most) || undefined
const count = (value: unknown): number | undefined => {
  const number = Number(value ?? Number.NaN)
  return Number.isFinite(number) && number > 0 ? number : undefined
}
/** Without what is undefined. */
const given = <T extends object>(fields: { [K in keyof T]: T[K] | undefined }): T =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
const yes = (value: unknown): true | undefined => (value ? true : undefined)

function unwrap(message: Optional<Message>): Message | undefined {
  let content = extractMessageContent(message)
  for (let depth = 0; content && depth < 5; depth++) {
    const inner: Optional<Message> = MORE_WRAPPERS.map(
      name => (content?.[name] as Optional<{ message?: Optional<Message> }>)?.message,
    ).find(found => found)
    if (!inner) break
    content = extractMessageContent(inner)
  }
  return content ?? undefined
}

type FilePart = Optional<
  proto.Message.IImageMessage &
    proto.Message.IVideoMessage &
    proto.Message.IAudioMessage &
    proto.Message.IDocumentMessage &
    proto.Message.IStickerMessage
>

function fileOf(part: NonNullable<FilePart>, round: boolean): File {
  return given<File>({
    mimetype: clip(part.mimetype),
    size: count(part.fileLength),
    filename: clip(part.fileName),
    seconds: count(part.seconds),
    width: count(part.width),
    height: count(part.height),
    pages: count(part.pageCount),
    animated: yes(part.isAnimated || part.isLottie),
    gif: yes(part.gifPlayback),
    round: yes(round),
  })
}

/** The file of a message, with its kind; the same part is what it is downloaded by. */
export function filePartOf(message: Optional<Message>): { kind: FileKind; part: NonNullable<FilePart> } | undefined {
  const content = unwrap(message)
  if (!content) return undefined
  const { imageMessage, videoMessage, ptvMessage, audioMessage, documentMessage, stickerMessage } = content
  const found: [FileKind, unknown][] = [
    ['image', imageMessage],
    ['video', videoMessage ?? ptvMessage],
    [audioMessage?.ptt ? 'voice' : 'audio', audioMessage],
    ['document', documentMessage],
    ['sticker', stickerMessage],
  ]
  for (const [kind, part] of found) if (part) return { kind, part: part as NonNullable<FilePart> }
  return undefined
}

const FIELDS = {
  image: 'imageMessage',
  video: 'videoMessage',
  voice: 'audioMessage',
  audio: 'audioMessage',
  document: 'documentMessage',
  sticker: 'stickerMessage',
} as const

/**
 * What is needed of a message later: what its file is downloaded by, or the options and the secret of a poll. Previews and
 * captions are left out, with which its sender could fill the disk.
 */
export function storable(message: Optional<Message>): Message | undefined {
  const file = filePartOf(message)
  if (file) {
    const { mediaKey, mediaKeyTimestamp, directPath, fileSha256, fileEncSha256, fileLength } = file.part
    return { [FIELDS[file.kind]]: { mediaKey, mediaKeyTimestamp, directPath, fileSha256, fileEncSha256, fileLength } }
  }
  const known = pollSecret(message)
  if (!known) return undefined
  return {
    pollCreationMessage: { options: known.options.map(optionName => ({ optionName })) },
    messageContextInfo: { messageSecret: known.secret },
  }
}

function placeOf(place: proto.Message.ILocationMessage & proto.Message.ILiveLocationMessage): Place | undefined {
  const { degreesLatitude: latitude, degreesLongitude: longitude, accuracyInMeters } = place
  if (!(Number.isFinite(latitude) && Number.isFinite(longitude))) return undefined
  return given<Place>({
    latitude: latitude as number,
    longitude: longitude as number,
    name: clip(place.name),
    address: clip(place.address),
    accuracyM: count(accuracyInMeters),
  })
}

/** WhatsApp's own number in a card (`waid=`), or the digits of the line. */
function cardOf(card: proto.Message.IContactMessage): Card {
  const lines = (card.vcard ?? '').slice(0, LONGEST_TEXT).split(/\r?\n/)
  const phones = lines
    .filter(line => /^(item\d+\.)?TEL/i.test(line))
    .map(line => /waid=(\d{5,20})/i.exec(line)?.[1] ?? line.slice(line.indexOf(':') + 1).replace(/\D/g, ''))
    .filter(digits => digits.length >= 5 && digits.length <= 20)
  return { name: clip(card.displayName) ?? '', phones: [...new Set(phones)].slice(0, MOST_CARDS) }
}

const targetOf = (key: Optional<proto.IMessageKey>): Target | undefined =>
  key?.id ? given<Target>({ whatsappId: key.id.slice(0, LONGEST_NAME), fromMe: yes(key.fromMe) }) : undefined

/**
 * Edits and deletions. They name their target from their author's view: a person edits what is theirs, and deletes that or, as
 * the admin of a group, what is another's.
 */
function amendment(part: proto.Message.IProtocolMessage, key: WAMessageKey): Content | undefined {
  const { Type } = proto.Message.ProtocolMessage
  const isTheirs = !!part.key?.fromMe
  const found = targetOf(part.key)
  if (!found || !(isTheirs || isJidGroup(key.remoteJid ?? ''))) return undefined
  const target = given<Target>({ whatsappId: found.whatsappId, fromMe: yes(isTheirs && key.fromMe) })
  if (part.type === Type.REVOKE) return { kind: 'deletion', target }
  if (part.type !== Type.MESSAGE_EDIT || !isTheirs) return undefined
  return { kind: 'edit', text: textOf(unwrap(part.editedMessage)) ?? '', target }
}

/** An edit that was encrypted once more, by its author of the message `id`; the new text, or an edit as any other. */
export function readSecretEdit(inner: Message, id: string, key: WAMessageKey): Content {
  const edited = unwrap(inner)
  const text = textOf(unwrap(edited?.protocolMessage?.editedMessage ?? edited))
  return { kind: 'edit', text: text ?? '', target: given<Target>({ whatsappId: id, fromMe: yes(key.fromMe) }) }
}

/** The secret that its author makes a message with, for what will be said about it. */
export const secretOf = (message: Optional<Message>): Optional<Uint8Array> =>
  (message?.messageContextInfo ?? unwrap(message)?.messageContextInfo)?.messageSecret

/** The words of a message, whatever kind it is: a text, a caption, a question, an answer. */
function textOf(content: Optional<Message>): string | undefined {
  const part = content
    ? (content[getContentType(content) ?? 'conversation'] as { caption?: string } | string)
    : undefined
  const caption = typeof part === 'object' ? part?.caption : undefined
  return clip(content?.conversation ?? content?.extendedTextMessage?.text ?? caption, LONGEST_TEXT)
}

/** The id of what was chosen, in the parameters of an answer; the flow's name says only what kind of list it was. */
function chosenIn(parameters: Optional<string>): string | undefined {
  try {
    const { id } = JSON.parse((parameters ?? '').slice(0, LONGEST_TEXT)) as { id?: unknown }
    return typeof id === 'string' ? id : undefined
  } catch {
    return undefined
  }
}

function answerOf(content: Message): Content | undefined {
  const { buttonsResponseMessage, templateButtonReplyMessage, listResponseMessage, interactiveResponseMessage } =
    content
  const answer = (
    kind: 'button_answer' | 'list_answer',
    text: Optional<string>,
    choice: Optional<string>,
  ): Content => ({
    kind,
    text: clip(text, LONGEST_TEXT) ?? '',
    choice: clip(choice) ?? '',
  })
  if (buttonsResponseMessage)
    return answer('button_answer', buttonsResponseMessage.selectedDisplayText, buttonsResponseMessage.selectedButtonId)
  if (templateButtonReplyMessage)
    return answer(
      'button_answer',
      templateButtonReplyMessage.selectedDisplayText,
      templateButtonReplyMessage.selectedId,
    )
  if (listResponseMessage)
    return answer('list_answer', listResponseMessage.title, listResponseMessage.singleSelectReply?.selectedRowId)
  if (interactiveResponseMessage) {
    const { body, nativeFlowResponseMessage: flow } = interactiveResponseMessage
    return answer('button_answer', body?.text, chosenIn(flow?.paramsJson) ?? flow?.name)
  }
  return undefined
}

const pollOf = (content: Message): Optional<proto.Message.IPollCreationMessage> =>
  content.pollCreationMessage ??
  content.pollCreationMessageV2 ??
  content.pollCreationMessageV3 ??
  (content as { pollCreationMessageV5?: proto.Message.IPollCreationMessage }).pollCreationMessageV5

function placed(content: Message): Content | undefined {
  const { locationMessage, liveLocationMessage } = content
  const place = locationMessage ?? liveLocationMessage
  if (!place) return undefined
  const kind = liveLocationMessage || locationMessage?.isLive ? 'live_location' : 'location'
  const text = clip(locationMessage?.comment ?? liveLocationMessage?.caption, LONGEST_TEXT)
  return given<Extract<Content, { kind: 'location' | 'live_location' }>>({ kind, text, location: placeOf(place) })
}

/** What people read in a message of a kind that is not told apart: an order, a product, an event, an invitation, an offer. */
function other(content: Message, type: string): Content {
  const { orderMessage: order, productMessage: product, eventMessage: event } = content
  const { groupInviteMessage: invitation, listMessage: list, interactiveMessage: offer } = content
  const lines = [
    ...[order?.orderTitle, order?.message, product?.product?.title, product?.body, event?.name, event?.description],
    ...[invitation?.groupName, invitation?.caption, list?.title, list?.description, offer?.header?.title],
    offer?.body?.text,
  ]
  const text = clip(lines.filter(line => line).join('\n'), LONGEST_TEXT)
  return { kind: 'other', name: type.slice(0, LONGEST_NAME), ...(text ? { text } : {}) }
}

/** The kind and the reported parts of a message; undefined for housekeeping. */
export function read(message: Optional<Message>, key: WAMessageKey = {}): Content | undefined {
  const content = unwrap(message)
  const type = content ? getContentType(content) : undefined
  if (!content || !type || SILENT.has(type)) return undefined
  if (content.protocolMessage) return amendment(content.protocolMessage, key)
  if (type === 'conversation' || type === 'extendedTextMessage') return { kind: 'text', text: textOf(content) ?? '' }
  const file = filePartOf(content)
  if (file) {
    const text = textOf(content)
    return { kind: file.kind, ...(text ? { text } : {}), media: fileOf(file.part, !!content.ptvMessage) }
  }
  const { reactionMessage, pollUpdateMessage, contactMessage, contactsArrayMessage } = content
  if (reactionMessage) {
    const target = targetOf(reactionMessage.key)
    return target && { kind: 'reaction', text: clip(reactionMessage.text, 64) ?? '', target }
  }
  if (pollUpdateMessage) {
    const target = targetOf(pollUpdateMessage.pollCreationMessageKey)
    return target && { kind: 'vote', target }
  }
  const cards = contactMessage ? [contactMessage] : contactsArrayMessage?.contacts
  if (cards) return { kind: 'contacts', contacts: cards.slice(0, MOST_CARDS).map(cardOf) }
  const poll = pollOf(content)
  if (poll) {
    const options = optionsOf(poll)
    return {
      kind: 'poll',
      text: clip(poll.name, LONGEST_TEXT) ?? '',
      poll: { options, selectable: poll.selectableOptionsCount ?? 0 },
    }
  }
  return placed(content) ?? answerOf(content) ?? other(content, type)
}

const optionsOf = (poll: proto.Message.IPollCreationMessage): string[] =>
  (poll.options ?? []).slice(0, MOST_OPTIONS).map(option => option.optionName?.slice(0, LONGEST_NAME) ?? '')

/** The whole options of a poll and the secret that votes are encrypted with. */
export function pollSecret(message: Optional<Message>): { options: string[]; secret: Uint8Array } | undefined {
  const content = unwrap(message)
  const poll = content && pollOf(content)
  const secret = (message?.messageContextInfo ?? content?.messageContextInfo)?.messageSecret
  if (!poll || !secret?.length) return undefined
  return { options: (poll.options ?? []).slice(0, MOST_OPTIONS).map(option => option.optionName ?? ''), secret }
}

type Part = { contextInfo?: Optional<proto.IContextInfo>; viewOnce?: Optional<boolean> }

/** What the message says about itself besides its content. */
export function readContext(message: Optional<Message>): Context {
  const content = unwrap(message)
  const type = content ? getContentType(content) : undefined
  const part = (content && type ? content[type] : undefined) as Optional<Part> | string
  const { contextInfo: info, viewOnce } = typeof part === 'object' && part ? part : ({} as Part)
  const outer = [message, message?.ephemeralMessage?.message]
  const isViewOnce = viewOnce || WRAPPERS_OF_VIEW_ONCE.some(name => outer.some(each => each?.[name]))
  const { messageAssociation: association } = message?.messageContextInfo ?? content?.messageContextInfo ?? {}
  const isInAlbum = association?.associationType === proto.MessageAssociation.AssociationType.MEDIA_ALBUM
  const mentioned = (info?.mentionedJid ?? []).slice(0, MOST_MENTIONS)
  return given<Context>({
    quote: info?.stanzaId ? quoteOf(info) : undefined,
    mentioned: mentioned.length ? mentioned : undefined,
    forwarded: yes(info?.isForwarded || info?.forwardingScore),
    viewOnce: yes(isViewOnce),
    album: isInAlbum ? clip(association?.parentMessageKey?.id) : undefined,
    ad: info?.externalAdReply ? adOf(info.externalAdReply) : undefined,
  })
}

/** The small JPEG that is shown before a file, a place or a page is opened, in base64; of what may be viewed once none. */
export function thumbnailOf(message: Optional<Message>): string | undefined {
  const content = unwrap(message)
  const type = content ? getContentType(content) : undefined
  const part = (content && type ? content[type] : undefined) as Optional<{ jpegThumbnail?: unknown }> | string
  const jpeg = typeof part === 'object' ? part?.jpegThumbnail : undefined
  const isTold = jpeg instanceof Uint8Array && jpeg.length <= LONGEST_THUMBNAIL && !readContext(message).viewOnce
  return (isTold && Buffer.from(jpeg).toString('base64')) || undefined
}

function quoteOf(info: proto.IContextInfo): NonNullable<Context['quote']> {
  const quoted = read(info.quotedMessage, {})
  return given<NonNullable<Context['quote']>>({
    whatsappId: clip(info.stanzaId) ?? '',
    jid: info.participant ?? undefined,
    kind: quoted?.kind,
    text: quoted && 'text' in quoted ? clip(quoted.text, 1024) : undefined,
  })
}

type Ad = {
  title?: Optional<string>
  body?: Optional<string>
  sourceUrl?: Optional<string>
  ctwaClid?: Optional<string>
}

const adOf = ({ title, body, sourceUrl, ctwaClid }: Ad): NonNullable<Context['ad']> =>
  given<NonNullable<Context['ad']>>({
    title: clip(title),
    text: clip(body, 1024),
    url: clip(sourceUrl, 2048),
    clickId: clip(ctwaClid),
  })
