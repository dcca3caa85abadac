import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { isWorthIt, type Look, tidyUp } from '../src/garbage-collection.ts'

const MB = 1 << 20
const at = (megabytes: number, cpuMs = 0): Look => ({ residentBytes: megabytes * MB, cpuMicros: cpuMs * 1000 })

test('an idle process that has grown is tidied, and a busy one only when it has grown much', () => {
  const cases: [then: number, last: Look, now: Look, isWorth: boolean][] = [
    [60, at(60), at(70, 20), true],
    [60, at(70), at(70, 20), true],
    [60, at(60), at(70, 5_000), false],
    [60, at(60), at(73, 5_000), true],
    [60, at(60), at(62, 20), false],
    [60, at(60), at(40, 20), false],
  ]
  for (const [then, last, now, isWorth] of cases)
    assert.equal(isWorthIt(then * MB, last, now), isWorth, JSON.stringify(now))
})

test('it collects at once, and again only when a busy spell is over', () => {
  mock.timers.enable({ apis: ['setInterval'] })
  let collections = 0
  let now = at(60)
  const stop = tidyUp(
    {
      collect: () => {
        collections++
        now = { ...now, residentBytes: 55 * MB }
      },
      look: () => now,
    },
    1_000,
  )
  const seen = [collections]
  for (const next of [at(56, 10), at(65, 9_000), at(65, 9_010), at(56, 9_020)]) {
    now = next
    mock.timers.tick(1_000)
    seen.push(collections)
  }
  stop()
  now = at(90, 9_030)
  mock.timers.tick(1_000)
  mock.timers.reset()
  assert.deepEqual([seen, collections], [[1, 1, 1, 2, 2], 2])
})
