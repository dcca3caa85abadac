// Names of groups, for the events of their messages.
import { isJidGroup, type WASocket } from 'baileys'
import { within } from '../connection/timing.ts'
import { Bounded } from '../store/bounded-cache.ts'

/** How long a message waits for the name of its group. One that comes later is told with the next message. */
const NAME_WAIT_MS = 2_000
const LONGEST_NAME = 100

/** Asks once per group and process, one group after another, and follows changes. */
export class GroupNames {
  readonly #names = new Bounded(1_000)
  #last: Promise<unknown> = Promise.resolve()

  attach(sock: WASocket): void {
    sock.ev.on('groups.upsert', groups => {
      for (const { id, subject } of groups) this.#put(id, subject)
    })
    sock.ev.on('groups.update', updates => {
      for (const { id, subject } of updates) if (id && subject) this.#put(id, subject)
    })
  }

  /** The name of the group of a chat; nothing for a person, and where WhatsApp does not tell it. */
  async of(chat: string, sock: WASocket): Promise<{ groupName?: string }> {
    if (!isJidGroup(chat)) return {}
    if (!this.#names.has(chat)) this.#ask(chat, sock)
    const name = await within(NAME_WAIT_MS, this.#names.get<Promise<string>>(chat) ?? Promise.resolve(''), () => '')
    return name ? { groupName: name } : {}
  }

  #ask(group: string, sock: WASocket): void {
    const asked = this.#last.then(async () => (await sock.groupMetadata(group)).subject ?? '').catch(() => '')
    this.#last = asked
    this.#names.set(group, asked.then(cut))
  }

  #put(group: string, name: string): void {
    this.#names.set(group, Promise.resolve(cut(name)))
  }
}

const cut = (name: string): string => name.slice(0, LONGEST_NAME)
