import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { useMultiFileAuthState } from 'baileys'
import { openAuth } from '../src/store/auth.ts'
import { makeSeal } from '../src/store/encryption-at-rest.ts'
import { Messages } from '../src/store/message-store.ts'
import { writeMultiFile } from '../src/store/multifile-layout.ts'

const temporary = () => mkdtempSync(join(tmpdir(), 'store-'))
const open = (authDir: string, authKey?: Buffer, previousAuthKey?: Buffer) =>
  openAuth({ sessionId: 's', authDir, authKey, previousAuthKey }, 1, () => undefined)

const KEYS = {
  'pre-key': { '1': { public: Buffer.alloc(32, 1), private: Buffer.alloc(32, 2) } },
  session: { '123_1.0': Buffer.from('session') },
  'sender-key': { '123-456@g.us::789_1::0': Buffer.from('sender') },
  'sender-key-memory': { '123-456@g.us': { 'a@lid': true } },
  'app-state-sync-key': { 'AAA/+g==': { keyData: Buffer.alloc(32, 3) } },
  'app-state-sync-version': { critical_block: { version: 1, hash: Buffer.alloc(128), indexValueMap: {} } },
  'lid-mapping': { '123': '456', '456_reverse': '123' },
  'device-list': { '123': ['0', '1'] },
  tctoken: { __index: { token: Buffer.from('[]') }, '1@lid': { token: Buffer.from('t') } },
  'identity-key': { '123_1.0': Buffer.alloc(33, 5) },
} as const

type Types = keyof typeof KEYS

/** What a value says on disk, whatever the order of its keys: a directory's listing has none to keep. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

test('what Baileys wrote in its own layout is read whole, and an export gives it back to Baileys', async () => {
  const [theirs, back] = [temporary(), temporary()]
  const { state, saveCreds } = await useMultiFileAuthState(theirs)
  await state.keys.set(KEYS as never)
  await saveCreds()
  const auth = await open(theirs)
  assert.deepEqual(auth.creds.noiseKey, state.creds.noiseKey)
  writeMultiFile(auth.database, join(back, 'out'))
  const again = await useMultiFileAuthState(join(back, 'out'))
  for (const type of Object.keys(KEYS) as Types[]) {
    const ids = Object.keys(KEYS[type])
    const expected = plain(await state.keys.get(type, ids))
    assert.deepEqual(plain(await auth.keys.get(type, ids)), expected, type)
    assert.deepEqual(plain(await again.state.keys.get(type, ids)), expected, type)
  }
  auth.database.close()
})

test('a full disk is told to the worker, although the one who wrote may swallow the error', async () => {
  const { database } = await open(temporary())
  const told: unknown[] = []
  database.onDiskFailure = error => told.push(error)
  const pages = Number(Object.values(database.sql.prepare('PRAGMA page_count').get() ?? {})[0])
  database.sql.exec(`PRAGMA max_page_count=${pages}`)
  const put = () => database.sql.prepare("INSERT INTO keys VALUES ('large', zeroblob(100000))").run()
  assert.throws(() => database.write(put), /full/)
  assert.equal(told.length, 1)
  assert.throws(() =>
    database.write(() => {
      throw new Error('another error')
    }),
  )
  assert.equal(told.length, 1)
  database.close()
})

test('what is set can be read at once, and what is removed is gone', async () => {
  const auth = await open(temporary())
  const written = auth.keys.set({ 'lid-mapping': { a: '1', b: '2' } })
  assert.deepEqual(await auth.keys.get('lid-mapping', ['a', 'b', 'c']), { a: '1', b: '2' })
  await written
  await auth.keys.set({ 'lid-mapping': { a: null } })
  assert.deepEqual(await auth.keys.get('lid-mapping', ['a', 'b']), { b: '2' })
  auth.database.close()
})

test('a write after a newer epoch has opened the file fails and changes nothing', async () => {
  const directory = temporary()
  const fenced: unknown[] = []
  const old = await openAuth(
    { sessionId: 's', authDir: directory, authKey: undefined, previousAuthKey: undefined },
    1,
    ending => fenced.push(ending),
  )
  old.database.sql.exec("UPDATE meta SET value = 2 WHERE name = 'epoch'")
  await assert.rejects(Promise.resolve(old.keys.set({ 'lid-mapping': { a: '1' } })), { exit: 'FENCED' })
  assert.deepEqual(await old.keys.get('lid-mapping', ['a']), {})
  assert.equal(fenced.length, 1)
  old.database.close()
})

test('a sealed value opens only under its own name, session and key', () => {
  const key = Buffer.alloc(32, 9)
  const seal = makeSeal('s', { authKey: key })
  const stored = seal.close('keys/creds', Buffer.from('secret'))
  assert.equal(seal.open('keys/creds', stored).toString(), 'secret')
  assert.throws(() => seal.open('keys/other', stored))
  assert.throws(() => makeSeal('t', { authKey: key }).open('keys/creds', stored))
  assert.throws(() => makeSeal('s', { authKey: Buffer.alloc(32, 8) }).open('keys/creds', stored))
  assert.throws(() => makeSeal('s', { authKey: undefined }).open('keys/creds', stored))
})

test('a first start leaves a whole file and nothing unfinished', async () => {
  const directory = temporary()
  const auth = await open(directory)
  auth.database.close()
  assert.deepEqual(
    readdirSync(directory).filter(name => name.startsWith('auth.new')),
    [],
  )
})

const [OLD, NEW, WRONG] = [1, 2, 3].map(byte => Buffer.alloc(32, byte)) as [Buffer, Buffer, Buffer]
const bytesOf = (directory: string): Buffer =>
  Buffer.concat(
    readdirSync(directory)
      .filter(name => name.startsWith('auth.db'))
      .map(name => readFileSync(join(directory, name))),
  )

async function noiseKeyOf(directory: string, ...keys: Buffer[]): Promise<Buffer> {
  const auth = await open(directory, ...keys)
  auth.database.close()
  return Buffer.from(auth.creds.noiseKey.private)
}

test('credentials that were stored plain are sealed at the next start with a key, and nothing plain is left in the file', async () => {
  const directory = temporary()
  const plainAuth = await open(directory)
  await plainAuth.keys.set({ session: { canary: Buffer.from('a canary that nobody may find') } })
  const noiseKey = Buffer.from(plainAuth.creds.noiseKey.private)
  plainAuth.database.close()
  const inPlain = noiseKey.toString('base64')
  assert.ok(bytesOf(directory).includes(inPlain))
  assert.deepEqual(await noiseKeyOf(directory, NEW), noiseKey)
  assert.ok(!bytesOf(directory).includes(inPlain))
})

test('after a rotation the key before opens what it sealed, and afterwards the new one is enough', async () => {
  const directory = temporary()
  const noiseKey = await noiseKeyOf(directory, OLD)
  assert.deepEqual(await noiseKeyOf(directory, NEW, OLD), noiseKey)
  assert.deepEqual(await noiseKeyOf(directory, NEW), noiseKey)
  await assert.rejects(open(directory, OLD), { name: 'Unreadable' })
})

test('a wrong or missing key neither makes a new identity nor changes a byte of the credentials', async () => {
  const directory = temporary()
  const noiseKey = await noiseKeyOf(directory, NEW)
  for (const keys of [[WRONG], [WRONG, OLD], []] as Buffer[][]) {
    await assert.rejects(open(directory, ...keys), { name: 'Unreadable' })
  }
  assert.deepEqual(await noiseKeyOf(directory, NEW), noiseKey)
})

test('a file that somebody sends under the id of our message is neither sent again in its place nor stored over it', async () => {
  const auth = await open(temporary())
  const messages = new Messages(auth.database)
  const key = { id: '3EB0AA', remoteJid: '1-2@g.us', fromMe: true }
  messages.remember({ key, message: { conversation: 'ours' } })
  messages.receive({ key: { ...key, fromMe: false }, message: { imageMessage: { caption: 'theirs' } } })
  messages.receive({ key: { id: '3A00' }, message: { imageMessage: { caption: 'private' } } })
  messages.receive({ key: { id: '3A00' }, message: { imageMessage: { caption: 'another' } } })
  assert.equal(messages.findForRetry(key)?.message?.conversation, 'ours')
  assert.equal(messages.findForRetry({ id: '3A00', remoteJid: '1@lid' }), undefined)
  assert.equal(messages.findReceived('3EB0AA')?.message?.imageMessage?.caption, 'theirs')
  assert.equal(messages.findReceived('3A00')?.message?.imageMessage?.caption, 'private')
  auth.database.close()
})
