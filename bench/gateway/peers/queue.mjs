// What both peers share: the key check and one Lua call that takes a message in. No limits, no idempotency, no routing, no eta.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import Redis from 'ioredis'

const ACCEPT = `
local sequence = redis.call('INCR', KEYS[3])
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'to', ARGV[2], 'body', ARGV[3], 'session', ARGV[4], 'status', 'queued', 'sequence', sequence)
redis.call('RPUSH', KEYS[2], ARGV[1])
return sequence`

const hash = text => createHash('sha256').update(text).digest()
const expected = hash(process.env.API_KEY)
const redis = new Redis({ path: process.env.REDIS_SOCKET, enableAutoPipelining: process.env.AUTO_PIPELINING === '1' })
redis.defineCommand('takeIn', { numberOfKeys: 3, lua: ACCEPT })

export const mayCall = key => typeof key === 'string' && timingSafeEqual(hash(key), expected)

export async function accept({ to, message, sessionId }) {
  const id = `m_${randomBytes(9).toString('hex')}`
  const position = await redis.takeIn(`message:${id}`, 'gateway:jobs', 'messages:sequence', id, to, message, sessionId ?? '')
  return { queued: true, messageId: id, sessionId, position }
}
