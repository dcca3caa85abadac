// What both peers share: the key check and one Lua call that takes a message in.
// With ADMIT (the gateway's own script) Redis does the same work for all; without it the least that a queue needs.
// Either way no validation, no idempotency, no choice of a sender, no eta.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import Redis from 'ioredis'

const BARE = `
local sequence = redis.call('INCR', KEYS[3])
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'to', ARGV[2], 'body', ARGV[3], 'session', ARGV[4], 'status', 'queued', 'sequence', sequence)
redis.call('RPUSH', KEYS[2], ARGV[1])
return sequence`

const hash = text => createHash('sha256').update(text).digest()
const expected = hash(process.env.API_KEY)
const redis = new Redis({ path: process.env.REDIS_SOCKET, enableAutoPipelining: process.env.AUTO_PIPELINING === '1' })

export const mayCall = key => typeof key === 'string' && timingSafeEqual(hash(key), expected)

const newId = () => `m_${randomBytes(9).toString('hex')}`

async function acceptBare({ to, message, sessionId }) {
  const id = newId()
  const position = await redis.takeIn(`message:${id}`, 'gateway:jobs', 'messages:sequence', id, to, message, sessionId)
  return { queued: true, messageId: id, sessionId, position }
}

async function acceptSame({ to, message, sessionId }) {
  const id = newId()
  const phone = `97250${sessionId.slice('worker_'.length).padStart(7, '0')}`
  const [[, ahead]] = await redis.takeIn(
    'rate:configured',
    'gateway:jobs',
    'gateway:waiting',
    'messages:counts',
    'optouts',
    'messages:sequence',
    'messages:expiring',
    'events',
    'idempotency::',
    `message:${id}`,
    `queue:session:${phone}`,
    `phone:sent:${phone}`,
    `phone:pace:${phone}`,
    0.001,
    60000000,
    86400000,
    JSON.stringify([
      id,
      phone,
      to,
      '',
      1000000,
      1000000,
      dayStart,
      0,
      0,
      0,
      sessionId,
      2,
      'whatsapp_id',
      `3EB0${id.slice(2).toUpperCase()}`,
      'kind',
      'text',
      'body',
      JSON.stringify({ kind: 'text', text: message }),
      'api_key',
      'configured',
      'pinned',
      'session',
      'why',
      'ASKED_SESSION',
    ]),
  )
  return { queued: true, messageId: id, sessionId, position: ahead + 1 }
}

const dayStart = Math.floor(Date.now() / 86400000) * 86400000
const admit = process.env.ADMIT
redis.defineCommand(
  'takeIn',
  admit ? { numberOfKeys: 13, lua: readFileSync(admit, 'utf8') } : { numberOfKeys: 3, lua: BARE },
)
export const accept = admit ? acceptSame : acceptBare
