// Decrypts with the keys that lie under a person's other name. What began under the number, before the LID was known or before a
// group moved to LIDs, lies where Baileys does not look once messages come under the LID; it moves sessions only for people whose
// devices it has listed, and sender keys of groups never.
import { isLidUser, jidDecode, jidEncode, type SignalKeyStoreWithTransaction, type SocketConfig } from 'baileys'

type SignalRepository = ReturnType<SocketConfig['makeSignalRepository']>
/** A record by the name under which Baileys looks, and by the other one. */
type Places = { type: 'session' | 'sender-key'; here: string; there: string }

/** Runs `decrypt` again with the session that lies under the number of the LID `jid`, and rethrows `error` if there is none. */
export async function decryptWithOtherSession<T>(
  repository: SignalRepository,
  keys: SignalKeyStoreWithTransaction,
  jid: string,
  error: unknown,
  decrypt: () => Promise<T>,
): Promise<T> {
  const number = isLidUser(jid) ? await repository.lidMapping.getPNForLID(jid) : undefined
  if (!number) throw error
  const here = repository.jidToSignalProtocolAddress(jid)
  const there = repository.jidToSignalProtocolAddress(number)
  return decryptWithRecordOf(keys, { type: 'session', here, there }, error, decrypt)
}

/** The same for a message to a group, whose author has `otherName` beside the name that it comes under. */
export async function decryptWithOtherSenderKey<T>(
  repository: SignalRepository,
  keys: SignalKeyStoreWithTransaction,
  author: { group: string; jid: string; otherName: string | undefined },
  error: unknown,
  decrypt: () => Promise<T>,
): Promise<T> {
  const { group, jid, otherName } = author
  const other = jidDecode(otherName)
  if (!other) throw error
  const place = (name: string): string => {
    const [id, device] = repository.jidToSignalProtocolAddress(name).split('.')
    return `${group}::${id}::${device}`
  }
  const there = place(jidEncode(other.user, other.server, jidDecode(jid)?.device))
  return decryptWithRecordOf(keys, { type: 'sender-key', here: place(jid), there }, error, decrypt)
}

/** To be called within a transaction of `keys`: what a second failure leaves behind is not stored. */
async function decryptWithRecordOf<T>(
  keys: SignalKeyStoreWithTransaction,
  { type, here, there }: Places,
  error: unknown,
  decrypt: () => Promise<T>,
): Promise<T> {
  const { [here]: current, [there]: other } = await keys.get(type, [here, there])
  if (!other) throw error
  await keys.set({ [type]: { [here]: other } })
  try {
    const plaintext = await decrypt()
    // The newer record stays where it is, and the older one beside it: messages of both may be on their way.
    const used = (await keys.get(type, [here]))[here] ?? null
    await keys.set({ [type]: current ? { [here]: current, [there]: used } : { [here]: used, [there]: null } })
    return plaintext
  } catch {
    await keys.set({ [type]: { [here]: current ?? null } })
    throw error
  }
}
