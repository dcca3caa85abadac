import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { proto } from 'baileys'
import type { Device } from '../src/connection/device.ts'
import { KeepAlive } from '../src/connection/keepalive.ts'
import { makeLog } from '../src/log.ts'
import type { Events } from '../src/server/events.ts'

test('the note to self is gone after a day, and goes every ten minutes to no one else', async t => {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] })
  const notes: unknown[][] = []
  const relayMessage = async (...given: unknown[]) => void notes.push(given)
  const device = { state: 'open', openSocket: { relayMessage } } as unknown as Device
  const events = { emit: () => undefined } as unknown as Events
  const settings = { keepAlive: true, pingIntervalMs: 15_000, selfMessageIntervalMs: 600_000 }
  const nothing = () => undefined
  const me = { jid: '111222333444555@lid', phone: '972501234567@s.whatsapp.net' }
  const keepAlive = new KeepAlive(
    settings,
    device,
    events,
    makeLog('worker_1', 'silent'),
    () => false,
    nothing,
    () => me,
    nothing,
  )
  keepAlive.start()
  t.mock.timers.tick(1_200_000)
  keepAlive.stop()
  for (let turns = 0; notes.length < 2 && turns < 1_000; turns++) await turn()
  assert.equal(notes.length, 2)
  for (const [to, message, options] of notes) {
    const { text, contextInfo } = (message as proto.IMessage).extendedTextMessage ?? {}
    assert.deepEqual([to, text, contextInfo?.expiration], [me.jid, '🔄', 86_400])
    assert.deepEqual((options as { additionalAttributes: object }).additionalAttributes, {
      peer_recipient_pn: me.phone,
    })
  }
})
