// The token for a first message to somebody who has given us none: a hash of the person's LID under a salt of the account.
// Baileys knows neither the salt nor the token, so the salt is read from the bytes that Baileys decodes.
import { createHmac } from 'node:crypto'
import { type BinaryNode, proto } from 'baileys'

const SALT_IN_HISTORY = 19
const CONVERSATIONS = 2
const MESSAGES = 2
const SALT_INDEX = '["nct_salt_sync"]'
const SALT_ACTION = 80
/** Bytes after the tag, and after the number, by the kind of a field. */
const FIXED_SIZES: Record<number, number> = { 0: 0, 1: 8, 5: 4 }

/** Calls back with each field at the top of a protobuf, in order, and where it lies; false if the bytes are none. */
function eachField(
  bytes: Uint8Array,
  visit: (number: number, value: Uint8Array | undefined, from: number, to: number) => void,
): boolean {
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let shift = 1; at < bytes.length; shift *= 128) {
      const byte = bytes[at++] as number
      value += (byte & 127) * shift
      if (byte < 128) return value
    }
    return Number.NaN
  }
  while (at < bytes.length) {
    const from = at
    const tag = varint()
    const kind = tag % 8
    const read = kind === 0 || kind === 2 ? varint() : 0
    const size = kind === 2 ? read : (FIXED_SIZES[kind] ?? Number.NaN)
    if (!(at + size <= bytes.length)) return false
    visit(Math.floor(tag / 8), kind === 2 ? bytes.subarray(at, at + size) : undefined, from, at + size)
    at += size
  }
  return true
}

/** The last value of a length-delimited field; nothing if there is none, or if the bytes are no protobuf. */
export function fieldOf(bytes: Uint8Array, wanted: number): Uint8Array | undefined {
  let found: Uint8Array | undefined
  const isWhole = eachField(bytes, (number, value) => {
    if (number === wanted && value) found = value
  })
  return isWhole ? found : undefined
}

/** The numbers of all fields at the top of a protobuf. */
export function fieldNumbers(bytes: Uint8Array): number[] {
  const found: number[] = []
  eachField(bytes, number => found.push(number))
  return found
}

/** A tag and a length, or any other number, as protobuf writes it. */
function varint(value: number): number[] {
  const bytes = []
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128)
  return [...bytes, value]
}

/**
 * A part of the history with the first `most` messages of each chat, which are the newest. Decoded whole, that of a busy account
 * would need ten times the memory that a worker has, for texts that are dropped unread.
 */
export function withMessages(history: Uint8Array, most: number): Uint8Array {
  const kept: Uint8Array[] = []
  const isWhole = eachField(history, (number, value, from, to) => {
    if (number !== CONVERSATIONS || !value) return void kept.push(history.subarray(from, to))
    const parts: Uint8Array[] = []
    let left = most
    const isConversation = eachField(value, (inner, _, start, end) => {
      if (inner !== MESSAGES || left-- > 0) parts.push(value.subarray(start, end))
    })
    const rest = isConversation ? Buffer.concat(parts) : value
    kept.push(Uint8Array.from([...varint(CONVERSATIONS * 8 + 2), ...varint(rest.length)]), rest)
  })
  return isWhole ? Buffer.concat(kept) : history
}

export const makeToken = (salt: Uint8Array, lid: string): BinaryNode => ({
  tag: 'cstoken',
  attrs: {},
  content: createHmac('sha256', salt).update(lid).digest(),
})

type Heard = {
  /** `isNews` is false for the history, which only fills in what app state has not said. Without a salt it is taken back. */
  salt: (salt: Uint8Array | undefined, isNews: boolean) => void
  /** The history says that the account's chats have moved to LIDs. */
  moved: () => void
  /** A part of the history; of each chat so many messages. */
  history: { textsPerChat: number; came: (history: proto.IHistorySync) => void }
}

/** Listens to what Baileys decodes. It gets no old texts: of the history it needs only names and tokens. */
export function listenToDecoding(heard: Heard): void {
  const decodeHistory = proto.HistorySync.decode.bind(proto.HistorySync)
  proto.HistorySync.decode = (bytes, length) => {
    const { textsPerChat, came } = heard.history
    const history =
      bytes instanceof Uint8Array ? decodeHistory(withMessages(bytes, textsPerChat)) : decodeHistory(bytes, length)
    const salt = bytes instanceof Uint8Array ? fieldOf(bytes, SALT_IN_HISTORY) : undefined
    if (salt?.length) heard.salt(Uint8Array.from(salt), false)
    if (Number(history.globalSettings?.chatDbLidMigrationTimestamp ?? 0) > 0) heard.moved()
    came(history)
    for (const conversation of history.conversations ?? []) conversation.messages = []
    return history
  }
  const decodeAction = proto.SyncActionData.decode.bind(proto.SyncActionData)
  proto.SyncActionData.decode = (bytes, length) => {
    const action = decodeAction(bytes, length)
    if (bytes instanceof Uint8Array && Buffer.from(action.index ?? []).toString() === SALT_INDEX) {
      const value = fieldOf(bytes, 2)
      const inner = value && fieldOf(value, SALT_ACTION)
      const salt = inner && fieldOf(inner, 1)
      heard.salt(salt?.length ? Uint8Array.from(salt) : undefined, true)
    }
    return action
  }
}
