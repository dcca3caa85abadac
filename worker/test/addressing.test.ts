import assert from 'node:assert/strict'
import { test } from 'node:test'
import { proto } from 'baileys'
import { readPairing, readProperties } from '../src/addressing.ts'
import { fieldOf, makeToken } from '../src/first-contact-token.ts'

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
