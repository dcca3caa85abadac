import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import type { BinaryNode } from 'baileys'
import { Proofs } from '../src/messages/message-acks.ts'

const me = { id: '972500000001:3@s.whatsapp.net', lid: '1000000000001:3@lid' }

/** Whether a stanza proves that WhatsApp has the message `id`. */
async function isProof(id: string, event: string, stanza: BinaryNode): Promise<boolean> {
  const ws = new EventEmitter()
  const proofs = new Proofs(() => undefined)
  proofs.attach({ ws, user: me } as never)
  const { proof } = proofs.expect(id)
  ws.emit(event, stanza)
  return Promise.race([proof.then(() => true), new Promise<false>(resolve => setImmediate(resolve, false))])
}

test('a receipt of several people in a group names the message beside them', async () => {
  const user = { tag: 'user', attrs: { jid: '2@lid', t: '1' } }
  const part = { tag: 'participants', attrs: { key: '3EB0A' }, content: [user] }
  const receipt = { tag: 'receipt', attrs: { from: '120363@g.us', id: 'other' }, content: [part] }
  assert.equal(await isProof('3EB0A', 'CB:receipt', receipt), true)
  assert.equal(await isProof('3EB0B', 'CB:receipt', receipt), false)
})

test('only a message of our own account proves that ours has arrived', async () => {
  const cases: [BinaryNode['attrs'], boolean][] = [
    [{ from: '972500000001@s.whatsapp.net', recipient: '2@lid' }, true],
    [{ from: '1000000000001@lid' }, true],
    [{ from: '120363@g.us', participant: '1000000000001:4@lid' }, true],
    [{ from: '2000000000002@lid' }, false],
    [{ from: '120363@g.us', participant: '2000000000002@lid' }, false],
  ]
  for (const [attrs, expected] of cases) {
    const stanza = { tag: 'message', attrs: { id: '3EB0A', ...attrs } }
    assert.equal(await isProof('3EB0A', 'CB:message', stanza), expected, JSON.stringify(attrs))
  }
})
