// The list of an account's groups must fit into a command's result, which the server limits.
import assert from 'node:assert/strict'
import test from 'node:test'
import type { GroupMetadata, WASocket } from 'baileys'
import { Groups } from '../src/messages/groups.ts'
import type { Command } from '../src/server/outbox.ts'

/** As orchestrator/api/workers/outbox.py has it. */
const MAX_RESULT_BYTES = 256 * 1024

const member = { id: '972500000001@s.whatsapp.net', admin: 'admin' as const }
const described = (at: number, subject: string) => ({
  id: `${120363025246125486n + BigInt(at)}@g.us`,
  subject,
  desc: 'ד'.repeat(2000),
  creation: 1_700_000_000,
  joinApprovalMode: true,
  announce: true,
  participants: [member],
})

function inGroups(count: number, subject: string): WASocket {
  const groups = Array.from({ length: count }, (_, at) => described(at, subject) as unknown as GroupMetadata)
  return {
    user: { id: member.id },
    groupFetchAllParticipating: async () => Object.fromEntries(groups.map(each => [each.id, each])),
    groupMetadata: async (id: string) => groups.find(each => each.id === id),
  } as unknown as WASocket
}

type Listed = { groups: { id: string; subject: string; description?: string }[]; complete: boolean }

test('a thousand groups with long descriptions are listed, without these', async () => {
  const sock = inGroups(1000, 'קורס 7, ערב, קבוצה שנייה')
  const answer = (await new Groups().run({ kind: 'list_groups' } as Command, sock)) as Listed
  assert.equal(answer.groups.length, 1000)
  assert.ok(answer.complete)
  assert.ok(Buffer.byteLength(JSON.stringify({ ok: true, ...answer })) < MAX_RESULT_BYTES)
  const to = answer.groups[0]?.id ?? ''
  const one = (await new Groups().run({ kind: 'describe_group', to } as Command, sock)) as { group: object }
  assert.equal((one.group as { description?: string }).description?.length, 2000)
})

test('as many groups are listed as fit, and the list says that these are not all', async () => {
  const sock = inGroups(1000, '😀'.repeat(50) + 'ש'.repeat(50))
  const answer = (await new Groups().run({ kind: 'list_groups' } as Command, sock)) as Listed
  assert.ok(answer.groups.length > 500)
  assert.ok(!answer.complete)
  assert.ok(Buffer.byteLength(JSON.stringify({ ok: true, ...answer })) < MAX_RESULT_BYTES)
})
