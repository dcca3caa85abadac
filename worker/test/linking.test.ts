import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { type BinaryNode, initAuthCreds, type WASocket } from 'baileys'
import { Linking } from '../src/connection/linking.ts'
import type { PasskeyChoice } from '../src/connection/passkey.ts'
import type { Ending } from '../src/exit-codes.ts'
import { makeLog } from '../src/log.ts'
import type { Events } from '../src/server/events.ts'
import type { Auth } from '../src/store/auth.ts'

const QR = 'https://wa.me/settings/linked_devices#ref,noise,identity,old,1'

/** A socket that only remembers, and a linking on it. */
function begin(passkeys?: PasskeyChoice) {
  const ws = new EventEmitter()
  let ended = 0
  const [sent, events, endings]: [BinaryNode[], { type: string; data: Record<string, unknown> }[], Ending[]] = [
    [],
    [],
    [],
  ]
  const creds = initAuthCreds()
  const sock = {
    ws,
    sendNode: async (node: BinaryNode) => void sent.push(node),
    end: async () => void (ended += 1),
    requestPairingCode: async (phone: string) => {
      creds.me = { id: `${phone}@s.whatsapp.net`, name: '~' }
      creds.pairingCode = 'ABCD1234'
      return 'ABCD1234'
    },
  }
  const auth = { creds, saveCreds: () => undefined } as unknown as Auth
  const book = {
    emit: (type: string, data: Record<string, unknown>) => events.push({ type, data }),
  } as unknown as Events
  const end = (ending: Ending) => void endings.push(ending)
  const linking = new Linking(sock as unknown as WASocket, auth, book, makeLog('s', 'silent'), end, passkeys)
  return { ws, sent, events, endings, creds, linking, ends: () => ended }
}

const notify = (ws: EventEmitter, type: string, child?: BinaryNode, from = '@s.whatsapp.net') => {
  const node = { tag: 'notification', attrs: { type, id: '1', from }, content: child ? [child] : [] }
  ws.emit(`CB:notification,type:${type}`, node)
  ws.emit('CB:notification', node)
}

const settled = () => new Promise(resolve => setImmediate(resolve))

test('a code is shown only after the server took it', async () => {
  const { ws, events, linking } = begin()
  linking.showQr(QR, 'hide')
  const asked = linking.requestCode('972501234567')
  await settled()
  assert.equal(events.length, 0)
  ws.emit('CB:iq,type:result,link_code_companion_reg', {})
  assert.equal((await asked).code, 'ABCD1234')
  assert.deepEqual(
    events.map(event => event.type),
    ['PAIRING_CODE'],
  )
})

test('a refused code is not shown, its traces are taken back, and the QR is shown instead', async () => {
  const { ws, events, creds, linking } = begin()
  linking.showQr(QR, 'hide')
  const asked = linking.requestCode('972501234567')
  await settled()
  ws.emit('CB:iq,type:error,error', { tag: 'iq', attrs: {}, content: [{ tag: 'error', attrs: { code: '400' } }] })
  await assert.rejects(asked, /PAIRING_CODE_REFUSED_400/)
  assert.deepEqual([creds.me, creds.registered, creds.pairingCode], [undefined, false, undefined])
  assert.deepEqual(
    events.map(event => event.type),
    ['STATUS_CHANGE', 'QR_CODE'],
  )
})

test('before login notifications are acknowledged by us, with a pairing code by Baileys', () => {
  const { ws, sent, creds } = begin()
  notify(ws, 'anything')
  assert.deepEqual(
    sent.map(node => [node.tag, node.attrs.class, node.attrs.id]),
    [['ack', 'notification', '1']],
  )
  creds.me = { id: '1@s.whatsapp.net' }
  notify(ws, 'anything')
  assert.equal(sent.length, 1)
})

test('a renewed secret changes the QR on show, and no secret is renewed once a code was entered', async () => {
  const { ws, events, creds, linking } = begin()
  linking.showQr(QR, 'show')
  const old = creds.advSecretKey
  notify(ws, 'companion_reg_refresh')
  assert.notEqual(creds.advSecretKey, old)
  assert.deepEqual(
    events.map(({ data }) => String(data.qr).split(',')[3]),
    [old, creds.advSecretKey],
  )
  const asked = linking.requestCode('972501234567')
  await settled()
  const ref = { tag: 'link_code_pairing_ref', attrs: {}, content: Buffer.from('the ref of this code') }
  const step = (attrs: Record<string, string>) => ({ tag: 'link_code_companion_reg', attrs, content: [ref] })
  ws.emit('CB:iq,type:result,link_code_companion_reg', { tag: 'iq', attrs: {}, content: [step({})] })
  await asked
  notify(ws, 'link_code_companion_reg', step({ stage: 'primary_hello' }))
  const entered = creds.advSecretKey
  notify(ws, 'md', { tag: 'pair-device-rotate-qr', attrs: {} })
  assert.equal(creds.advSecretKey, entered)
})

test('a demand for a passkey counts only when the server itself makes it', () => {
  const { ws, events, endings } = begin()
  notify(ws, 'passkey_prologue_request', undefined, '972501234567@s.whatsapp.net')
  assert.equal(endings.length, 0)
  notify(ws, 'passkey_prologue_request')
  assert.deepEqual(events, [
    { type: 'STATUS_CHANGE', data: { status: 'PASSKEY_REQUIRED' } },
    { type: 'AUTH_FAILURE', data: { reason: 'PASSKEY_REQUIRED' } },
  ])
  assert.equal(endings[0]?.exit, 'PASSKEY_REQUIRED')
})

test('a QR that comes after the phone has accepted is not shown', () => {
  const { events, linking } = begin()
  linking.accepted()
  linking.showQr(QR, 'show')
  assert.equal(events.length, 0)
})

test('neither codes that run out nor a retired secret disturb a ceremony', async t => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { ws, events, creds, linking, ends } = begin({ isOn: true, browser: 'Chrome', phoneMs: 60_000 })
  const ref = { tag: 'ref', attrs: {}, content: Buffer.from('2@last') }
  const offer = { tag: 'iq', attrs: {}, content: [{ tag: 'pair-device', attrs: {}, content: [ref] }] }
  ws.emit('CB:iq,type:set,pair-device', offer)
  assert.deepEqual(new Set(offer.content[0]?.content), new Set([ref]))
  assert.ok((offer.content[0]?.content.length ?? 0) > 20, 'the last code is shown on, or the connection would end')
  linking.showQr(QR, 'show')
  notify(ws, 'passkey_prologue_request', {
    tag: 'passkey_request_options',
    attrs: {},
    content: Buffer.from('{}'),
  })
  await settled()
  const secret = creds.advSecretKey
  notify(ws, 'companion_reg_refresh')
  assert.equal(creds.advSecretKey, secret)
  linking.showQr(QR, 'show')
  assert.equal(ends(), 0)
  assert.deepEqual(
    events.map(({ type, data }) => [type, data.stage]),
    [
      ['QR_CODE', undefined],
      ['PASSKEY', 'required'],
    ],
  )
  linking.closed()
  linking.showQr(QR, 'show')
  assert.equal(ends(), 1)
})
