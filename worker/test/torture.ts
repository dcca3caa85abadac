// A process that writes keys and credentials as fast as it can until it is killed; run by torture.test.ts. Prints each number once it is stored.
import '../src/silence-console.ts'
import { decode, encode } from '../src/store/codec.ts'
import { openDatabase } from '../src/store/database.ts'
import { CREDS, KeyStore } from '../src/store/key-store.ts'

export type Creds = { identity: string; count: number }

export async function openStore(
  directory: string,
  epoch: number,
): Promise<{ creds: Creds; store: KeyStore; close: () => void }> {
  const database = await openDatabase(
    { sessionId: 'torture', authDir: directory, authKey: undefined, previousAuthKey: undefined },
    epoch,
    ({ sql, seal }) => {
      const creds = { identity: `${process.pid} at ${Date.now()}`, count: 0 }
      sql.prepare('INSERT INTO keys (name, value) VALUES (?, ?)').run(CREDS, seal.close(`keys/${CREDS}`, encode(creds)))
    },
  )
  const row = database.sql.prepare('SELECT value FROM keys WHERE name = ?').get(CREDS)
  const creds = decode(database.seal.open(`keys/${CREDS}`, row?.value as Uint8Array)) as Creds
  return { creds, store: new KeyStore(database, creds, () => process.exit(1)), close: () => database.close() }
}

/** One turn as Baileys does it: several types outside of its transactions, and a counter in the credentials, all of one number. */
async function write(creds: Creds, store: KeyStore, n: number): Promise<void> {
  creds.count = n
  store.credsLater()
  await Promise.all([
    store.set({ session: { alice: Buffer.from(String(n).padStart(2_000, '0')) } }),
    store.set({ 'identity-key': { alice: n }, 'device-list': { alice: [n] } }),
    store.set({ 'lid-mapping': { alice: n, [`number${n}`]: n, [`number${n - 3}`]: null } }),
  ])
}

async function run(directory: string, epoch: number): Promise<void> {
  const { creds, store } = await openStore(directory, epoch)
  for (let n = creds.count + 1; ; n++) {
    await write(creds, store, n)
    process.stdout.write(`${n}\n`)
  }
}

const [, program, directory, epoch] = process.argv
if (program?.endsWith('torture.ts') && directory) void run(directory, Number(epoch))
