import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readCap, readLock } from '../src/connection/account-limits.ts'
import { classify } from '../src/connection/disconnect-reasons.ts'
import { withSecret } from '../src/connection/linking.ts'
import { ProxyError } from '../src/connection/proxy.ts'
import { backoffMs } from '../src/connection/timing.ts'
import { newest, parseRevision } from '../src/connection/version.ts'
import { EXIT } from '../src/exit-codes.ts'
import { baileysLogger, describeError, makeLog } from '../src/log.ts'
import { read } from '../src/messages/incoming-content.ts'
import { failedToSend, refusedByWhatsApp } from '../src/messages/send-outcomes.ts'
import { typingMs } from '../src/messages/typing-time.ts'
import { judge } from '../src/server/events.ts'
import { Bounded } from '../src/store/bounded-cache.ts'

const boom = (statusCode: number, message = '', data?: unknown) =>
  Object.assign(new Error(message), { output: { statusCode }, data })

test('every exit code is distinct', () => {
  assert.equal(new Set(Object.values(EXIT)).size, Object.keys(EXIT).length)
})

for (const [error, kind, reason] of [
  [boom(401), 'final', 'LOGGED_OUT'],
  [boom(402), 'final', 'TEMPORARY_BAN'],
  [boom(403), 'final', 'BANNED'],
  [boom(406), 'final', 'BANNED'],
  [boom(440), 'final', 'REPLACED_ELSEWHERE'],
  [boom(411), 'final', 'MULTI_DEVICE_OFF'],
  [boom(405), 'outdated', 'CLIENT_OUTDATED'],
  [boom(408), 'retry', 'CONNECTION_LOST'],
  [boom(408, 'QR refs attempts ended'), 'restart', 'QR_EXPIRED'],
  [boom(428), 'retry', 'CONNECTION_CLOSED'],
  [boom(500), 'retry', 'BAD_SESSION'],
  [boom(503), 'retry', 'SERVICE_UNAVAILABLE'],
  [boom(515), 'restart', 'RESTART_REQUIRED'],
  [undefined, 'retry', 'CONNECTION_CLOSED'],
] as const) {
  test(`an end with ${error?.output.statusCode} ${error?.message ?? ''} is ${kind}: ${reason}`, () => {
    const end = classify(error, 0)
    assert.equal(end.kind as string, kind)
    assert.equal('reason' in end && end.reason, reason)
  })
}

test('a failed proxy comes with the same 500 as a broken session and is told apart', () => {
  assert.equal(classify(boom(500, 'WebSocket Error', new ProxyError('auth', 'no')), 0).kind, 'proxy')
  assert.equal(classify(boom(408, 'WebSocket Error', new ProxyError('dropped', 'no')), 0).kind, 'proxy')
})

test('a temporary ban says when it ends, where WhatsApp does', () => {
  assert.deepEqual(classify(boom(402, '', { expire: '60' }), 1_000), {
    kind: 'final',
    reason: 'TEMPORARY_BAN',
    exit: 'TEMPORARY_BAN',
    code: 402,
    endsAt: 61_000,
  })
  assert.equal('endsAt' in classify(boom(402, '', {}), 0), false)
})

test('463 is never retried, server errors are, other refusals are final', () => {
  const retryable = (code: string) => {
    const outcome = refusedByWhatsApp(code)
    return outcome.kind === 'failed' && outcome.nack.retryable
  }
  assert.deepEqual(['463', '479', '500', '400', '487'].map(retryable), [false, false, true, false, false])
})

test('an error while sending is retried under a code that says what failed', () => {
  const code = (error: unknown) => {
    const outcome = failedToSend(error)
    return outcome.kind === 'failed' && outcome.nack.retryable && outcome.nack.code
  }
  assert.equal(code(boom(428, 'Connection Closed')), 'SOCKET_CLOSED')
  assert.equal(code(boom(500, 'Media upload failed on all hosts')), 'MEDIA_UPLOAD_FAILED')
  assert.equal(code(new Error('?')), 'SEND_FAILED')
})

test('typing takes longer for longer texts and never longer than the limit', () => {
  assert.ok(typingMs(100, 60_000) > typingMs(10, 60_000))
  assert.equal(typingMs(4096, 8_000), 8_000)
  assert.equal(typingMs(10, 0), 0)
})

test('pauses grow, stay within their bounds and differ by chance', () => {
  assert.equal(
    backoffMs(0, 100, 1_000, () => 0),
    50,
  )
  assert.equal(
    backoffMs(0, 100, 1_000, () => 1),
    100,
  )
  assert.equal(
    backoffMs(50, 100, 1_000, () => 1),
    1_000,
  )
})

test('an answer to an event decides what happens to it', () => {
  assert.equal(judge(204, false), 'accepted')
  assert.equal(judge(409, true), 'fenced')
  assert.equal(judge(409, false), 'accepted')
  assert.equal(judge(401, false), 'retry slowly')
  assert.equal(judge(422, false), 'drop')
  assert.equal(judge(500, false), 'retry')
})

test('the QR that is shown holds the current secret and nothing else changes', () => {
  assert.equal(
    withSecret('https://wa.me/settings/linked_devices#r,n,i,old,1', 'new'),
    'https://wa.me/settings/linked_devices#r,n,i,new,1',
  )
})

test('the version is the newest of what is known', () => {
  assert.equal(parseRevision('x{\\"client_revision\\":1050000000,'), 1_050_000_000)
  assert.equal(parseRevision('nothing'), undefined)
  assert.deepEqual(newest([2, 3000, 10], 11), [2, 3000, 11])
  assert.deepEqual(newest([2, 3000, 10], 9), [2, 3000, 10])
})

test('a lock is judged by isActive alone, and its end is told only while it holds', () => {
  const ends = new Date(5_000)
  assert.deepEqual(readLock({ isActive: true, timeEnforcementEnds: ends, enforcementType: 'SOMETHING_NEW' }), {
    active: true,
    type: 'SOMETHING_NEW',
    endsAt: 5_000,
  })
  assert.deepEqual(readLock({ isActive: false, timeEnforcementEnds: ends }), { active: false, type: 'DEFAULT' })
  assert.deepEqual(readCap({ capping_status: 'CAPPED', used_quota: 5, total_quota: 5, cycle_end_timestamp: '7' }), {
    status: 'CAPPED',
    used: 5,
    total: 5,
    endsAt: 7_000,
  })
  assert.equal(readCap(null), undefined)
  assert.deepEqual(readCap({ capping_status: 'NONE', used_quota: '5', total_quota: 'many' }), {
    status: 'NONE',
    used: 5,
  })
})

test('messages are read by kind, and housekeeping is not a message', () => {
  assert.deepEqual(read({ conversation: 'hi' }), { kind: 'text', text: 'hi' })
  assert.deepEqual(read({ ephemeralMessage: { message: { extendedTextMessage: { text: 'hi' } } } }), {
    kind: 'text',
    text: 'hi',
  })
  assert.deepEqual(read({ locationMessage: { degreesLatitude: 32.1, degreesLongitude: 34.8, name: 'Office' } }), {
    kind: 'location',
    location: { latitude: 32.1, longitude: 34.8, name: 'Office' },
  })
  assert.equal(read({ protocolMessage: {} }), undefined)
  assert.equal(read(undefined), undefined)
  assert.equal(read({ stickerMessage: { mimetype: 'image/webp' } })?.kind, 'sticker')
})

test('a bounded map forgets what was used longest ago and what is too old', () => {
  let now = 0
  const map = new Bounded(2, 10, () => now)
  map.set('a', 1)
  map.set('b', 2)
  map.get('a')
  map.set('c', 3)
  assert.deepEqual([map.get('a'), map.get('b'), map.get('c')], [1, undefined, 3])
  now = 11
  assert.deepEqual([map.get('a'), map.size], [undefined, 1])
})

test('nothing that looks like a key, a phone or an object of the library reaches the log', () => {
  const lines: string[] = []
  const log = makeLog('s', 'debug', line => lines.push(line))
  baileysLogger(log).warn({ privKey: 'secret', text: 'hello' }, 'mapping 972501234567 failed')
  log.error('x', {
    error: describeError(new Error(`bad key ${Buffer.alloc(32, 7).toString('base64')} of 972501234567`)),
  })
  const written = lines.join('')
  for (const secret of ['secret', 'hello', '972501234567', Buffer.alloc(32, 7).toString('base64')])
    assert.ok(!written.includes(secret), secret)
  assert.ok(written.includes('*4567'))
})

test('what was chosen in an interactive answer is its id, or the name of the list if there is none', () => {
  const choice = (paramsJson: string) => {
    const flow = { name: 'quick_reply', paramsJson }
    const answer = read({ interactiveResponseMessage: { body: { text: 'Yes' }, nativeFlowResponseMessage: flow } })
    return answer?.kind === 'button_answer' && answer.choice
  }
  const given = ['{"id":"yes-1"}', '{"id":7}', 'null', 'no JSON', '']
  assert.deepEqual(given.map(choice), ['yes-1', 'quick_reply', 'quick_reply', 'quick_reply', 'quick_reply'])
})
