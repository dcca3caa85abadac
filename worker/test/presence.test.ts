// While the device is online, the owner's phone gets no notifications: how long a run of messages may keep it so.
import assert from 'node:assert/strict'
import test from 'node:test'
import type { WASocket } from 'baileys'
import { Presence } from '../src/connection/presence.ts'
import type { Log } from '../src/log.ts'

test('a run of messages keeps the device online for a minute at a stretch, and no longer', async t => {
  t.mock.timers.enable({ apis: ['Date', 'setTimeout'] })
  const said: [at: number, state: string][] = []
  const openSocket = {
    sendPresenceUpdate: async (state: string) => void said.push([Date.now(), state]),
  } as unknown as WASocket
  const presence = new Presence('while_sending', { openSocket }, { debug: () => {} } as unknown as Log)
  for (let second = 0; second < 150; second += 3) {
    await presence.begin()
    t.mock.timers.tick(1_000)
    presence.end()
    t.mock.timers.tick(2_000)
  }
  t.mock.timers.tick(3_000)
  const ends = said.filter(([, state]) => state === 'unavailable').map(([at]) => at)
  const starts = said.filter(([, state]) => state === 'available').map(([at]) => at)
  assert.deepEqual(
    starts.map((at, index) => (ends[index] ?? Number.NaN) - at),
    [60_000, 60_000, 33_000],
  )
})

test('after a single message the device leaves at once', async t => {
  t.mock.timers.enable({ apis: ['Date', 'setTimeout'] })
  const said: string[] = []
  const openSocket = { sendPresenceUpdate: async (state: string) => void said.push(state) } as unknown as WASocket
  const presence = new Presence('while_sending', { openSocket }, { debug: () => {} } as unknown as Log)
  await presence.begin()
  presence.end()
  t.mock.timers.tick(5_000)
  assert.deepEqual(said, ['available', 'unavailable'])
})
