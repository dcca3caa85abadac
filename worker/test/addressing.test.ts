import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { proto } from 'baileys'
import { isWanted } from '../src/connection/socket.ts'
import { Addressing, hasMoved, readPairing, readProperties } from '../src/messages/addressing.ts'
import { fieldOf, makeToken, withMessages } from '../src/messages/first-contact-token.ts'

const success = (...content: { tag: string; attrs: object; content?: Uint8Array }[]) => ({
  tag: 'iq',
  attrs: {},
  content: [{ tag: 'pair-success', attrs: {}, content: content as never }],
})

test('pairing tells the kind of the account, and an absent or malformed node tells nothing', () => {
  for (const moved of [true, false]) {
    const bytes = proto.ClientPairingProps.encode({ isChatDbLidMigrated: moved }).finish()
    assert.equal(readPairing(success({ tag: 'client-props', attrs: {}, content: bytes })), moved)
  }
  assert.equal(readPairing(success()), undefined)
  const broken = Uint8Array.of(10, 200)
  assert.equal(readPairing(success({ tag: 'client-props', attrs: {}, content: broken })), undefined)
})

test('properties are read by their codes', () => {
  const prop = { tag: 'prop', attrs: { config_code: '9435', config_value: '1' } }
  const answer = { tag: 'iq', attrs: {}, content: [{ tag: 'props', attrs: {}, content: [prop] }] }
  assert.equal(readProperties(answer).get('9435'), '1')
  assert.equal(readProperties({ tag: 'iq', attrs: {} }).size, 0)
})

test('the token of a first contact is the one that other clients make', () => {
  const { content } = makeToken(Buffer.from('whatsapp_nct_salt_example'), 'alice@lid')
  assert.equal(
    Buffer.from(content as Uint8Array).toString('hex'),
    '7c6afc325785ac3c4f571e648a3bb822f0e2e49434812ed2809aea2e7043b576',
  )
})

test('a field is found among others, and bytes that are no protobuf have none', () => {
  const bytes = Uint8Array.of(8, 150, 1, 0x9a, 1, 3, 1, 2, 3, 0x21, 0, 0, 0, 0, 0, 0, 0, 0)
  assert.deepEqual(fieldOf(bytes, 19), Uint8Array.of(1, 2, 3))
  assert.equal(fieldOf(bytes, 20), undefined)
  for (const wrong of [[0x9a, 1, 9, 1], [0xff], [7], [0x9a, 1, 0xff, 0xff, 0xff, 0xff, 0xff]])
    assert.equal(fieldOf(Uint8Array.from(wrong), 19), undefined)
})

test('the list of LIDs from the phone tells that the account has moved if it says when', () => {
  const encode = (chatDbMigrationTimestamp: number) =>
    proto.LIDMigrationMappingSyncPayload.encode({ pnToLidMappings: [], chatDbMigrationTimestamp }).finish()
  assert.equal(hasMoved(encode(1_790_000_000)), true)
  for (const silent of [encode(0), undefined, Uint8Array.of(10, 200)]) assert.equal(hasMoved(silent), false)
})

test('every part of the history is taken when it comes, and recent history is not waited for', () => {
  for (const syncType of Object.values(proto.HistorySync.HistorySyncType)) {
    if (typeof syncType === 'number') assert.equal(isWanted({ syncType, directPath: '/v/part' }), true)
  }
  assert.equal(isWanted({ syncType: proto.HistorySync.HistorySyncType.RECENT }), false)
})

test('a history without its messages is the same otherwise', () => {
  const message = { message: { key: { id: '3A' }, message: { conversation: 'a secret text' } }, msgOrderId: 1 }
  const conversations = [
    { id: '1@lid', messages: [message, message], tcToken: Uint8Array.of(1, 2), tcTokenTimestamp: 7, pnJid: '1@s' },
    { id: 'x'.repeat(300), messages: [message], lidJid: '2@lid' },
  ]
  const whole = proto.HistorySync.encode({ syncType: 3, conversations, progress: 100 }).finish()
  const expected = proto.HistorySync.encode({
    syncType: 3,
    conversations: conversations.map(one => ({ ...one, messages: [] })),
    progress: 100,
  }).finish()
  const cut = withMessages(whole, 0)
  assert.ok(Buffer.from(cut).equals(Buffer.from(expected)))
  assert.ok(!Buffer.from(cut).includes('secret'))
  const first = proto.HistorySync.decode(withMessages(whole, 1))
  assert.deepEqual(
    first.conversations?.map(one => one.messages?.length),
    [1, 1],
  )
  const broken = Uint8Array.of(0x12, 200, 1)
  assert.equal(withMessages(broken, 0), broken)
})

/** Undoes what addressing does to Baileys' decoding, which is one for all tests. */
function leaveDecoding(t: TestContext): void {
  const [decodeHistory, decodeAction] = [proto.HistorySync.decode, proto.SyncActionData.decode]
  t.after(() => {
    Object.assign(proto.HistorySync, { decode: decodeHistory })
    Object.assign(proto.SyncActionData, { decode: decodeAction })
  })
}

test('whoever has given a token long ago gets the one for a first contact', async t => {
  leaveDecoding(t)
  const given = { token: Uint8Array.of(1), timestamp: '' }
  const auth = {
    creds: { firstContactSalt: Uint8Array.of(1, 2, 3) },
    keys: { get: async () => ({ '5@lid': given }) },
  }
  const addressing = new Addressing(auth as never, { textsPerChat: 0, came: () => undefined } as never, {} as never)
  const now = Math.floor(Date.now() / 1000)
  for (const [days, count] of [
    [0, 0],
    [20, 0],
    [29, 1],
  ] as const) {
    given.timestamp = String(now - days * 24 * 60 * 60)
    assert.equal((await addressing.firstContactToken({ jid: '5@lid', lid: '5@lid' })).length, count)
  }
})

test('a salt that WhatsApp has taken back makes no tokens, whatever an older history says', async t => {
  leaveDecoding(t)
  const auth = { creds: {}, keys: { get: async () => ({}) }, saveCreds: () => undefined }
  const addressing = new Addressing(auth as never, { textsPerChat: 0, came: () => undefined } as never, {} as never)
  const tokens = async () => (await addressing.firstContactToken({ jid: '5@lid', lid: '5@lid' })).length
  const bytes = (number: number, value: Uint8Array) => {
    const tag = number * 8 + 2
    return Buffer.from([(tag & 127) + 128, tag >> 7, value.length, ...value])
  }
  const index = Buffer.from('["nct_salt_sync"]')
  const action = (value: Uint8Array) =>
    Buffer.concat([Buffer.from([10, index.length]), index, Buffer.from([18, value.length]), value])
  proto.HistorySync.decode(Buffer.concat([Buffer.from([8, 0]), bytes(19, Uint8Array.of(7, 7))]))
  assert.equal(await tokens(), 1)
  proto.SyncActionData.decode(action(bytes(80, Uint8Array.of(10, 2, 9, 9))))
  assert.equal(await tokens(), 1)
  proto.SyncActionData.decode(action(Uint8Array.of(8, 1)))
  assert.equal(await tokens(), 0)
  proto.HistorySync.decode(Buffer.concat([Buffer.from([8, 0]), bytes(19, Uint8Array.of(7, 7))]))
  assert.equal(await tokens(), 0)
})
