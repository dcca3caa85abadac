// What time does to a passkey ceremony: proofs and requests that grow old, and people and phones that never answer.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test, { type TestContext } from 'node:test'
import { type BinaryNode, Curve, getBinaryNodeChild, initAuthCreds, proto, type WASocket } from 'baileys'
import { type Assertion, Passkey } from '../src/connection/passkey.ts'
import type { Log } from '../src/log.ts'
import type { Events } from '../src/server/events.ts'
import type { Auth } from '../src/store/auth.ts'

const MINUTE_MS = 60_000
const ASSERTION: Assertion = {
  id: 'aWQ',
  rawId: 'aWQ',
  type: 'public-key',
  response: { clientDataJSON: '', authenticatorData: '', signature: '' },
}
const node = (tag: string, content?: BinaryNode['content']): BinaryNode => ({ tag, attrs: { id: '1' }, content })
const REQUEST = node('notification', [node('passkey_request_options', Buffer.from('{}'))])

type Told = { stage: string; reason?: string; retry?: string; auto?: boolean; code?: string }

/** A ceremony with a WhatsApp that answers everything, and a clock that the test moves. */
function begin(t: TestContext): { passkey: Passkey; told: Told[]; prologues: BinaryNode[]; ends: () => number } {
  t.mock.timers.enable({ apis: ['Date', 'setTimeout'] })
  const told: Told[] = []
  const prologues: BinaryNode[] = []
  let ended = 0
  const sock = {
    ws: { isOpen: true },
    query: async (stanza: BinaryNode): Promise<BinaryNode> => {
      const prologue = getBinaryNodeChild(stanza, 'passkey_prologue')
      if (prologue) prologues.push(prologue)
      return node('iq', getBinaryNodeChild(stanza, 'ref') ? [node('ref', Buffer.from('2@REF'))] : undefined)
    },
    sendNode: async (): Promise<void> => {},
    end: async (): Promise<void> => {
      ended += 1
    },
  } as unknown as WASocket
  const auth = { creds: initAuthCreds(), saveCreds: () => {} } as unknown as Auth
  const events = { emit: (_: string, data: Told) => told.push(data) } as unknown as Events
  const log = { info: () => {}, warn: () => {} } as unknown as Log
  const passkey = new Passkey(sock, auth, events, log, { browser: 'Chrome', phoneMs: 2 * MINUTE_MS })
  return { passkey, told, prologues, ends: () => ended }
}

/** The phone's part of the ceremony. */
function continuation(): BinaryNode {
  const publicKey = Curve.generateKeyPair().public
  const content = proto.PrimaryEphemeralIdentity.encode({ publicKey, nonce: randomBytes(32) }).finish()
  return node('notification', [node('primary_ephemeral_identity', content)])
}

test('a proof of the scan is given within five minutes, and the codes need not be compared', async t => {
  const { passkey, told, prologues } = begin(t)
  await passkey.requested(REQUEST)
  t.mock.timers.tick(5 * MINUTE_MS - 1)
  await passkey.submit(ASSERTION)
  await passkey.continued(continuation())
  assert.ok(getBinaryNodeChild(prologues[0], 'pairing_handoff_proof'))
  assert.deepEqual(
    told.map(each => each.stage),
    ['required', 'sent', 'confirm', 'pairing'],
  )
  assert.equal(told[2]?.auto, true)
})

test('an older proof is not given, and nothing is paired before a person has compared the codes', async t => {
  const { passkey, told, prologues } = begin(t)
  await passkey.requested(REQUEST)
  t.mock.timers.tick(5 * MINUTE_MS)
  await passkey.submit(ASSERTION)
  await passkey.continued(continuation())
  assert.equal(getBinaryNodeChild(prologues[0], 'pairing_handoff_proof'), undefined)
  assert.deepEqual(told.at(-1)?.auto, false)
  assert.match(told.at(-1)?.code ?? '', /^[1-9A-HJ-NP-TV-Z]{4}-[1-9A-HJ-NP-TV-Z]{4}$/)
  await passkey.confirm()
  assert.equal(told.at(-1)?.stage, 'pairing')
})

test('a request of more than ten minutes ago is not answered; a new one is', async t => {
  const { passkey, prologues } = begin(t)
  await passkey.requested(REQUEST)
  t.mock.timers.tick(10 * MINUTE_MS + 1)
  await assert.rejects(passkey.submit(ASSERTION), { message: 'PASSKEY_EXPIRED' })
  assert.equal(prologues.length, 0)
  await passkey.requested(REQUEST)
  await passkey.submit(ASSERTION)
  assert.equal(prologues.length, 1)
})

test('a phone that never continues ends the ceremony, which begins anew with a new code', async t => {
  const { passkey, told, ends } = begin(t)
  await passkey.requested(REQUEST)
  await passkey.submit(ASSERTION)
  t.mock.timers.tick(2 * MINUTE_MS - 1)
  assert.equal(told.at(-1)?.stage, 'sent')
  t.mock.timers.tick(1)
  assert.deepEqual(told.at(-1), { stage: 'failed', reason: 'no_answer', retry: 'restart' })
  assert.equal(ends(), 1)
  await passkey.continued(continuation())
  assert.equal(told.at(-1)?.stage, 'failed')
})

test('codes that nobody compares are not confirmed later', async t => {
  const { passkey, told } = begin(t)
  await passkey.requested(REQUEST)
  t.mock.timers.tick(5 * MINUTE_MS)
  await passkey.submit(ASSERTION)
  await passkey.continued(continuation())
  t.mock.timers.tick(2 * MINUTE_MS)
  assert.deepEqual(told.at(-1), { stage: 'failed', reason: 'timeout', retry: 'restart' })
  await assert.rejects(passkey.confirm(), { message: 'NOTHING_TO_CONFIRM' })
})

test('a pairing that WhatsApp never completes is told, and begins anew', async t => {
  const { passkey, told } = begin(t)
  await passkey.requested(REQUEST)
  await passkey.submit(ASSERTION)
  await passkey.continued(continuation())
  t.mock.timers.tick(2 * MINUTE_MS)
  assert.deepEqual(told.at(-1), { stage: 'failed', reason: 'timeout', retry: 'restart' })
})

test('a phone that continues in one breath with WhatsApp’s answer is heard', async t => {
  const { passkey, told } = begin(t)
  await passkey.requested(REQUEST)
  const submitted = passkey.submit(ASSERTION)
  await passkey.continued(continuation())
  await submitted
  assert.equal(told.at(-1)?.stage, 'pairing')
})
