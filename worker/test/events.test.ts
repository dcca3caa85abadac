import assert from 'node:assert/strict'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate, setTimeout } from 'node:timers/promises'
import { Ending } from '../src/exit-codes.ts'
import { makeLog } from '../src/log.ts'
import { Events } from '../src/server/events.ts'
import { openAuth } from '../src/store/auth.ts'

const SETTINGS = {
  sessionId: 's',
  epoch: 1,
  webhookUrl: new URL('http://127.0.0.1:9/'),
  webhookSecret: `whsec_${Buffer.alloc(24).toString('base64')}`,
  workerToken: 'wwt_s.1.00',
  fenceMs: 0,
}

test('who stops while an event waits for credentials that never arrive gets to its end', async () => {
  const authDir = mkdtempSync(join(tmpdir(), 'events-'))
  const { database } = await openAuth(
    { sessionId: 's', authDir, authKey: undefined, previousAuthKey: undefined },
    1,
    () => undefined,
  )
  let asked = 0
  database.durable = () => {
    asked++
    return Promise.reject(new Ending('FENCED', 'the server knows a newer epoch'))
  }
  const hooks = { answered: () => undefined, fenced: () => undefined }
  const events = new Events(
    SETTINGS,
    makeLog('s', 'error', () => undefined),
    hooks,
    database,
  )
  events.emit('MESSAGE_RECEIVED', { text: 'too late' })
  while (asked === 0) await setImmediate()
  await events.close(0)
  assert.equal(await setTimeout(0, 'a timer is still heard'), 'a timer is still heard')
  database.close()
})
