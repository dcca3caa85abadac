import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import type { BinaryNode, WASocket } from 'baileys'
import { answerPings, guardStanzas } from '../src/connection/incoming-stanzas.ts'
import { millisOf } from '../src/connection/timing.ts'
import { Ending } from '../src/exit-codes.ts'
import { makeLog } from '../src/log.ts'

const me = { id: '972500000001:3@s.whatsapp.net' }

/** A socket that only remembers, with its stanzas guarded. */
function begin() {
  const ws = new EventEmitter()
  const sent: BinaryNode[] = []
  const sock = { ws, user: me, sendNode: async (node: BinaryNode) => void sent.push(node) } as unknown as WASocket
  guardStanzas(sock, makeLog('s', 'silent'))
  answerPings(sock)
  return { ws, sent }
}

test('a listener that cannot read a stanza keeps it from nobody else', async () => {
  const { ws } = begin()
  const heard: string[] = []
  ws.on('CB:chatstate', () => {
    throw new TypeError('no such child')
  })
  ws.once('CB:chatstate', () => heard.push('chatstate'))
  ws.on('CB:ib,,dirty', async () => {
    throw new TypeError('no such group')
  })
  ws.on('CB:ib,,dirty', () => heard.push('dirty'))
  assert.equal(ws.emit('CB:chatstate', { tag: 'chatstate', attrs: {} }), true)
  assert.equal(ws.emit('CB:ib,,dirty', { tag: 'ib', attrs: {} }), true)
  assert.equal(ws.emit('CB:nothing', { tag: 'nothing', attrs: {} }), false)
  await new Promise(resolve => setImmediate(resolve))
  assert.deepEqual(heard, ['chatstate', 'dirty'])
  assert.equal(ws.listenerCount('CB:chatstate'), 1)
})

test('an error of our own is not taken for one of WhatsApp', () => {
  const { ws } = begin()
  ws.on('CB:message', () => {
    throw new Ending('FENCED', 'a newer epoch exists')
  })
  assert.throws(() => ws.emit('CB:message', { tag: 'message', attrs: { from: '1@lid' } }), Ending)
})

test('a ping is answered in both of its forms, and an answer to ours is not', () => {
  const { ws, sent } = begin()
  const from = '@s.whatsapp.net'
  ws.emit('CB:iq', { tag: 'iq', attrs: { from, type: 'get', xmlns: 'urn:xmpp:ping', t: '1' } })
  ws.emit('CB:iq', { tag: 'iq', attrs: { from, id: '7' }, content: [{ tag: 'ping', attrs: {} }] })
  for (const attrs of [
    { from, type: 'result', id: '8', xmlns: 'urn:xmpp:ping' },
    { from, type: 'set', id: '9', xmlns: 'md' },
  ])
    ws.emit('CB:iq', { tag: 'iq', attrs })
  const attrs = { to: from, type: 'result' }
  assert.deepEqual(sent, [
    { tag: 'iq', attrs },
    { tag: 'iq', attrs: { ...attrs, id: '7' } },
  ])
})

test('a status is acknowledged once, whatever stanza it comes in, and shown to nobody', () => {
  for (const tag of ['message', 'status']) {
    const { ws, sent } = begin()
    const seen: BinaryNode[] = []
    ws.on('CB:message', (stanza: BinaryNode) => seen.push(stanza))
    const stanza = { tag, attrs: { from: 'status@broadcast', participant: '2@lid', id: '3EB0', type: 'media' } }
    for (const event of [`CB:${tag},from:status@broadcast`, `CB:${tag},from`, `CB:${tag}`]) ws.emit(event, stanza)
    assert.deepEqual(seen, [])
    assert.equal(sent.length, 1)
    const { error, ...attrs } = sent[0]?.attrs ?? {}
    assert.equal(error, undefined)
    const own = tag === 'message' ? { from: me.id } : {}
    assert.deepEqual(attrs, {
      class: tag,
      id: '3EB0',
      to: 'status@broadcast',
      participant: '2@lid',
      type: 'media',
      ...own,
    })
  }
})

test('a time that is none, or missing, is now', t => {
  t.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 })
  for (const wrong of [undefined, null, '', 'soon', '0', Number.NaN, -1, '99999999999999999999'])
    assert.equal(millisOf(wrong), 1_800_000_000_000, String(wrong))
  assert.equal(millisOf('1700000000'), 1_700_000_000_000)
})
