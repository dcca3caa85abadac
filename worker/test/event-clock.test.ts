import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventClock } from '../src/server/event-clock.ts'
import type { Answer } from '../src/server/http.ts'

const HOUR_MS = 3_600_000
const refusedAt = (ms: number): Answer => ({
  status: 401,
  headers: { date: new Date(ms).toUTCString() },
  body: Buffer.alloc(0),
})

test('a clock that is set back makes no later event look earlier', t => {
  t.mock.timers.enable({ apis: ['Date'], now: 10 * HOUR_MS })
  const clock = new EventClock()
  const before = clock.now()
  t.mock.timers.setTime(9 * HOUR_MS)
  assert.ok(clock.now() >= before)
})

test('a sleep of the machine has passed', t => {
  t.mock.timers.enable({ apis: ['Date'], now: 10 * HOUR_MS })
  const clock = new EventClock()
  clock.now()
  t.mock.timers.setTime(11 * HOUR_MS)
  assert.equal(clock.now(), 11 * HOUR_MS)
})

test('a refused signature is repeated with the time of the server', t => {
  t.mock.timers.enable({ apis: ['Date'], now: 10 * HOUR_MS })
  const clock = new EventClock()
  assert.ok(clock.adjust(refusedAt(7 * HOUR_MS)))
  assert.ok(Math.abs(clock.serverNow() - 7 * HOUR_MS) < 60_000)
  assert.equal(clock.adjust({ status: 401, headers: {}, body: Buffer.alloc(0) }), false)
})

test('what is reported is in order and not in the future of a server whose clock was set back too', t => {
  t.mock.timers.enable({ apis: ['Date'], now: 10 * HOUR_MS })
  const clock = new EventClock()
  const connected = clock.timeToReport(clock.now())
  clock.accepted(connected)
  t.mock.timers.setTime(9 * HOUR_MS)
  const lost = clock.now()
  clock.adjust(refusedAt(9 * HOUR_MS))
  assert.equal(clock.timeToReport(lost), connected)
})

test('an event that waited while the clock was ahead does not overtake the next one', t => {
  t.mock.timers.enable({ apis: ['Date'], now: 10 * HOUR_MS })
  const clock = new EventClock()
  clock.accepted(clock.timeToReport(clock.now()))
  t.mock.timers.setTime(11 * HOUR_MS)
  const lost = clock.now()
  clock.timeToReport(lost) // refused
  clock.adjust(refusedAt(10 * HOUR_MS))
  t.mock.timers.setTime(11 * HOUR_MS + 1_000)
  const back = clock.now()
  const first = clock.timeToReport(lost)
  clock.accepted(first)
  const second = clock.timeToReport(back)
  assert.ok(first <= second)
  assert.ok(second < 10 * HOUR_MS + 60_000)
})
