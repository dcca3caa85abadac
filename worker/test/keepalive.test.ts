import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Device } from '../src/connection/device.ts'
import { KeepAlive } from '../src/connection/keepalive.ts'
import { makeLog } from '../src/log.ts'
import type { Events } from '../src/server/events.ts'

test('the note to self is gone after a day, and goes every ten minutes to no one else', t => {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'] })
  const notes: unknown[][] = []
  const sendMessage = async (...given: unknown[]) => void notes.push(given)
  const device = { state: 'open', openSocket: { sendMessage } } as unknown as Device
  const events = { emit: () => undefined } as unknown as Events
  const settings = { keepAlive: true, pingIntervalMs: 15_000, selfMessageIntervalMs: 600_000 }
  const nothing = () => undefined
  const me = '972501234567@s.whatsapp.net'
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
  assert.equal(notes.length, 2)
  for (const [to, content, options] of notes) {
    assert.deepEqual([to, content], [me, { text: '🔄' }])
    assert.equal((options as { ephemeralExpiration: number }).ephemeralExpiration, 86_400)
  }
})
