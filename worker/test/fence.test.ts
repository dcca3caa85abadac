import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fence } from '../src/connection/fence.ts'

/** A fence with a clock that the test sets. */
function makeFence(fenceMs: number): { fence: Fence; setClock: (ms: number) => void } {
  let now = 0
  return { fence: new Fence(fenceMs, () => now), setClock: ms => (now = ms) }
}

test('nobody may connect before the server has taken a ping', () => {
  const { fence } = makeFence(1_000)
  assert.equal(fence.isHeld, false)
})

test('it counts from when the ping was made, not from its answer', () => {
  const { fence, setClock } = makeFence(60_000)
  setClock(30_000)
  fence.signed(0)
  assert.equal(fence.isHeld, true)
  setClock(59_999)
  assert.equal(fence.isHeld, true)
  setClock(60_000)
  assert.equal(fence.isHeld, false)
})

test('an answer to a ping that is too old by now lets nobody connect', async () => {
  const { fence, setClock } = makeFence(60_000)
  let isOpen = false
  const opened = fence.held().then(() => (isOpen = true))
  setClock(70_000)
  fence.signed(5_000)
  await Promise.resolve()
  assert.equal(isOpen, false)
  fence.signed(69_000)
  await opened
  assert.equal(isOpen, true)
})

test('when the time is over it says so, at once also after a freeze', () => {
  const { fence, setClock } = makeFence(1_000)
  let lost = 0
  fence.onLost = () => lost++
  setClock(5_000)
  fence.signed(3_000)
  assert.equal(lost, 1)
})

test('without a fence everybody may connect', async () => {
  const { fence } = makeFence(0)
  assert.equal(fence.isHeld, true)
  await fence.held()
})
