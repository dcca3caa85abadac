// The hash of the devices that a message is for. WhatsApp names that of the current ones in its ack: another one than ours
// means that our list of devices is old.
import { createHash } from 'node:crypto'
import { type FullJid, jidDecode } from 'baileys'
import type { Bounded } from '../store/bounded-cache.ts'

type Listed = Pick<FullJid, 'user' | 'device' | 'server'>

/** The first six bytes of SHA-256 over the sorted names, `user.0:device@server`. */
export function hashOf(devices: Listed[]): string {
  const names = new Set(devices.map(({ user, device, server }) => `${user}.0:${device ?? 0}@${server}`))
  const digest = createHash('sha256')
    .update([...names].sort().join(''))
    .digest()
  return `2:${digest.subarray(0, 6).toString('base64')}`
}

/** That of the devices known of these people, and of our own, which no list has; undefined if one of them has no list. */
export function hashOfKnown(cache: Bounded, people: string[], self: string | undefined): string | undefined {
  const own = jidDecode(self)
  const lists = people.map(jid => cache.get<Listed[]>(jidDecode(jid)?.user ?? ''))
  const listed = lists.filter(list => list !== undefined)
  return own && listed.length === lists.length ? hashOf([...listed.flat(), own]) : undefined
}
