// Groups: list, describe, create, rename, leave, remove a member, invite by link, answer requests to join.
// There is no way to add a person: people come in by the link, which they follow themselves.
import { type GroupMetadata, isJidGroup, isLidUser, isPnUser, jidDecode, type WASocket } from 'baileys'
import { within } from '../connection/timing.ts'
import type { Command } from '../server/outbox.ts'
import { ActError } from './message-acts.ts'

const ANSWER_MS = 20_000
const MOST_LISTED = 1000
/** Of a list: the server takes a result of 256 KiB. */
const MOST_BYTES = 240 * 1024
const LINK = 'https://chat.whatsapp.com/'

type Names = { phone?: string; lid?: string }

export class Groups {
  /** The answer for the server; undefined for a command that is not ours. */
  async run(command: Command, sock: WASocket): Promise<object | undefined> {
    const act = this.#acts[command.kind]
    if (!act) return undefined
    let answer: object | undefined
    try {
      answer = await within(ANSWER_MS, act(command, sock), () => undefined)
    } catch (error) {
      throw error instanceof ActError ? error : new ActError(codeOf(error))
    }
    if (!answer) throw new ActError('NO_ANSWER')
    return answer
  }

  readonly #acts: Readonly<Record<string, (command: Command, sock: WASocket) => Promise<object>>> = {
    list_groups: async (_, sock) => {
      const found = Object.values(await sock.groupFetchAllParticipating())
      const groups = fitting(found.slice(0, MOST_LISTED).map(group => listed(group, sock)))
      return { groups, complete: groups.length === found.length }
    },
    describe_group: async (command, sock) => {
      const group = await sock.groupMetadata(groupOf(command))
      const members = group.participants.map(each => ({
        ...namesOf([each.id, each.phoneNumber, each.lid]),
        ...(each.admin ? { admin: true } : {}),
      }))
      return { group: { ...described(group, sock), members } }
    },
    // Without members: whoever is to be in it gets the link.
    create_group: async (command, sock) => ({ group: described(await sock.groupCreate(textOf(command), []), sock) }),
    rename_group: async (command, sock) => {
      await sock.groupUpdateSubject(groupOf(command), textOf(command))
      return {}
    },
    approve_joins: async (command, sock) => {
      await sock.groupJoinApprovalMode(groupOf(command), command.text === 'on' ? 'on' : 'off')
      return {}
    },
    leave_group: async (command, sock) => {
      await sock.groupLeave(groupOf(command))
      return {}
    },
    remove_member: async (command, sock) => {
      const group = groupOf(command)
      const member = await addressIn(group, command, sock)
      requireDone(await sock.groupParticipantsUpdate(group, [member], 'remove'))
      return {}
    },
    group_link: async (command, sock) => linkOf(await sock.groupInviteCode(groupOf(command))),
    renew_group_link: async (command, sock) => linkOf(await sock.groupRevokeInvite(groupOf(command))),
    join_requests: async (command, sock) => {
      const found = await sock.groupRequestParticipantsList(groupOf(command))
      const requests = found.map(each => ({
        ...namesOf([each.jid, each.phone_number, each.lid]),
        ...(each.request_time ? { at: Number(each.request_time) * 1000 } : {}),
      }))
      return { requests }
    },
    answer_join_request: async (command, sock) => {
      const group = groupOf(command)
      const { phone, lid } = command
      const found = await sock.groupRequestParticipantsList(group)
      const asked = found.find(each => {
        const names = namesOf([each.jid, each.phone_number, each.lid])
        return (phone && names.phone === phone) || (lid && names.lid === lid)
      })
      if (!asked?.jid) throw new ActError('NO_SUCH_REQUEST')
      const how = command.text === 'approve' ? 'approve' : 'reject'
      requireDone(await sock.groupRequestParticipantsUpdate(group, [asked.jid], how))
      return {}
    },
  }
}

function groupOf({ to }: Command): string {
  if (!to || !isJidGroup(to)) throw new ActError('INVALID_ACT')
  return to
}

function textOf({ text }: Command): string {
  if (!text) throw new ActError('INVALID_ACT')
  return text
}

/** A member under the name that the group has for them: by LID or by number. */
async function addressIn(group: string, { phone, lid }: Command, sock: WASocket): Promise<string> {
  const { participants } = await sock.groupMetadata(group)
  const found = participants.find(each => {
    const names = namesOf([each.id, each.phoneNumber, each.lid])
    return (phone && names.phone === phone) || (lid && names.lid === lid)
  })
  if (!found) throw new ActError('NO_SUCH_MEMBER')
  return found.id
}

/** The first groups of a list, as many as its answer has room for. */
function fitting(groups: object[]): object[] {
  let left = MOST_BYTES
  const end = groups.findIndex(group => {
    left -= Buffer.byteLength(JSON.stringify(group)) + 1
    return left < 0
  })
  return end < 0 ? groups : groups.slice(0, end)
}

function described(group: GroupMetadata, sock: WASocket): object {
  return { ...listed(group, sock), ...(group.desc ? { description: group.desc } : {}) }
}

/** Without the description, which may have 2,000 characters. */
function listed(group: GroupMetadata, sock: WASocket): object {
  const mine = new Set([sock.user?.id, sock.user?.lid].map(jid => jidDecode(jid ?? '')?.user))
  const self = group.participants.find(each =>
    [each.id, each.phoneNumber, each.lid].some(jid => jid && mine.has(jidDecode(jid)?.user)),
  )
  return {
    id: group.id,
    subject: group.subject ?? '',
    size: group.size ?? group.participants.length,
    admin: !!self?.admin,
    ...(group.creation ? { createdAt: group.creation * 1000 } : {}),
    ...(group.joinApprovalMode ? { joinApproval: true } : {}),
    ...(group.announce ? { onlyAdminsWrite: true } : {}),
  }
}

function namesOf(jids: (string | undefined)[]): Names {
  const user = (jid: string | undefined) => (jid ? jidDecode(jid)?.user : undefined)
  const phone = user(jids.find(jid => jid && isPnUser(jid)))
  const lid = user(jids.find(jid => jid && isLidUser(jid)))
  return { ...(phone ? { phone } : {}), ...(lid ? { lid } : {}) }
}

function linkOf(code: string | undefined): object {
  if (!code) throw new ActError('GROUP_FORBIDDEN')
  return { link: LINK + code }
}

function requireDone(results: { status: string }[]): void {
  const status = results[0]?.status ?? '404'
  if (status !== '200') throw new ActError(codeOf({ data: Number(status) }))
}

/** WhatsApp's answers: 404 there is none, 401 and 403 the account is not in it or not an admin. */
function codeOf(error: unknown): string {
  const { data, output } = error as { data?: unknown; output?: { statusCode?: number } }
  const code = typeof data === 'number' ? data : output?.statusCode
  if (code === 404 || code === 410) return 'UNKNOWN_GROUP'
  if (code === 401 || code === 403) return 'GROUP_FORBIDDEN'
  return code === 408 || !code ? 'NO_ANSWER' : `WHATSAPP_${code}`
}
