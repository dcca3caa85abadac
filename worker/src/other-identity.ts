// Decrypts with the session of a person's other name. A session that began under the number, before the LID was known, lies
// where Baileys does not look once messages come under the LID; it moves them only for people whose devices it has listed.
import { isLidUser, type SignalKeyStoreWithTransaction, type SocketConfig } from 'baileys'

type SignalRepository = ReturnType<SocketConfig['makeSignalRepository']>

/**
 * Runs `decrypt` again with the session that lies under the number of the LID `jid`, and rethrows `error` if there is none.
 * To be called within a transaction of `keys`: what a second failure leaves behind is not stored.
 */
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
  const { [here]: current, [there]: other } = await keys.get('session', [here, there])
  if (!other) throw error
  await keys.set({ session: { [here]: other } })
  try {
    const plaintext = await decrypt()
    // The newer session stays where it is, and the older one beside it: messages of both may be on their way.
    const used = (await keys.get('session', [here]))[here] ?? null
    await keys.set({ session: current ? { [here]: current, [there]: used } : { [here]: used, [there]: null } })
    return plaintext
  } catch {
    await keys.set({ session: { [here]: current ?? null } })
    throw error
  }
}
