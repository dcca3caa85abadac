import assert from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Browsers } from 'baileys'
import { shownAs } from '../src/connection/socket.ts'
import { readSettings, type Settings } from '../src/settings.ts'

const GOOD = {
  SESSION_ID: 'worker_1',
  EPOCH: '1',
  PROXY_URL: 'socks5h://user:fake%40password@proxy.example.com:1080',
  WEBHOOK_URL: 'http://127.0.0.1:9/webhook',
  WEBHOOK_SECRET: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  OUTBOX_URL: 'http://127.0.0.1:9/outbox',
  WORKER_TOKEN: 'fake-token',
}

function accepted(env: Record<string, string | undefined>): Settings {
  const read = readSettings(env)
  assert.ok('settings' in read, JSON.stringify(read))
  return read.settings
}

test('what is required is enough, and the rest has the documented defaults', () => {
  const settings = accepted(GOOD)
  assert.deepEqual(settings.proxy, {
    host: 'proxy.example.com',
    port: 1080,
    username: 'user',
    password: 'fake@password',
  })
  assert.equal(settings.authDir, '/app/sessions/worker_1')
  assert.deepEqual(
    [settings.keepAlive, settings.pingIntervalMs, settings.selfMessageIntervalMs],
    [true, 15_000, 600_000],
  )
  assert.deepEqual([settings.ackTimeoutMs, settings.orphanTimeoutMs, settings.platform], [75_000, 1_800_000, 'ubuntu'])
})

for (const name of Object.keys(GOOD).filter(name => name !== 'OUTBOX_URL')) {
  test(`without ${name} it does not start`, () => {
    const read = readSettings({ ...GOOD, [name]: undefined })
    assert.ok('refusals' in read)
    assert.deepEqual(
      read.refusals.map(({ variable, exit }) => [variable, exit]),
      [[name, 'SETTING_MISSING']],
    )
  })
}

for (const [name, value, exit] of [
  ['PROXY_URL', 'socks5://user:fake@proxy.example.com:1080', 'PROXY_REFUSED'],
  ['PROXY_URL', 'http://proxy.example.com:3128', 'PROXY_REFUSED'],
  ['PROXY_URL', 'not an address', 'PROXY_REFUSED'],
  ['SESSION_ID', '../etc', 'SETTING_INVALID'],
  ['SESSION_ID', 'x'.repeat(65), 'SETTING_INVALID'],
  ['EPOCH', '-1', 'SETTING_INVALID'],
  ['EPOCH', 'first', 'SETTING_INVALID'],
  ['WEBHOOK_URL', 'ftp://example.com', 'SETTING_INVALID'],
  ['OUTBOX_URL', 'nowhere', 'SETTING_INVALID'],
  ['WEBHOOK_SECRET', 'whsec_short', 'SETTING_INVALID'],
  ['ENABLE_KEEP_ALIVE', 'perhaps', 'SETTING_INVALID'],
  ['DEVICE_NAME', 'Acme Ltd', 'SETTING_INVALID'],
  ['PAIRING_PHONE', '12', 'SETTING_INVALID'],
  ['AUTH_KEY', 'c2hvcnQ=', 'SETTING_INVALID'],
  ['LOG_LEVEL', 'loud', 'SETTING_INVALID'],
  ['ORPHAN_TIMEOUT_MS', 'soon', 'SETTING_INVALID'],
  ['ACK_TIMEOUT_MS', '1.5', 'SETTING_INVALID'],
] as const) {
  test(`${name}=${value.slice(0, 30)} is refused as ${exit}, with an example`, () => {
    const read = readSettings({ ...GOOD, [name]: value })
    assert.ok('refusals' in read)
    const [refusal] = read.refusals
    assert.deepEqual([refusal?.variable, refusal?.exit], [name, exit])
    assert.ok(refusal?.problem && refusal.example)
    assert.ok(!JSON.stringify(refusal).includes('user:fake'))
  })
}

test('a password with a percent sign that encodes nothing is taken as it is', () => {
  assert.equal(
    accepted({ ...GOOD, PROXY_URL: 'socks5h://user:100%25%zz@proxy.example.com:1080' }).proxy?.password,
    '100%25%zz',
  )
})

test('without a proxy it starts only where that was asked for', () => {
  const { PROXY_URL: _, ...rest } = GOOD
  assert.equal(accepted({ ...rest, ALLOW_DIRECT: 'true' }).proxy, undefined)
  assert.ok('refusals' in readSettings({ ...rest, ALLOW_DIRECT: 'false' }))
  assert.ok(accepted({ ...GOOD, ALLOW_DIRECT: 'true' }).proxy)
})

for (const [webhookUrl, outboxUrl] of [
  ['http://172.28.0.3:3000/webhook', 'http://172.28.0.3:3000/api/worker/sessions/worker_1/outbox'],
  ['http://orchestrator:3000/api/webhook', 'http://orchestrator:3000/api/worker/sessions/worker_1/outbox'],
  ['https://wa.example.com/x/webhook', 'https://wa.example.com/x/api/worker/sessions/worker_1/outbox'],
] as const) {
  test(`messages come from the server of ${webhookUrl}`, () => {
    assert.equal(accepted({ ...GOOD, OUTBOX_URL: undefined, WEBHOOK_URL: webhookUrl }).outboxUrl.href, outboxUrl)
  })
}

test('an address that is not the server’s own needs OUTBOX_URL', () => {
  const read = readSettings({ ...GOOD, OUTBOX_URL: undefined, WEBHOOK_URL: 'http://127.0.0.1:9/events' })
  assert.ok('refusals' in read)
  assert.deepEqual(
    read.refusals.map(refusal => refusal.variable),
    ['OUTBOX_URL'],
  )
})

test('a value may come from a file, but not from both', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'settings-')), 'token')
  writeFileSync(path, 'from-file\n')
  assert.equal(accepted({ ...GOOD, WORKER_TOKEN: undefined, WORKER_TOKEN_FILE: path }).workerToken, 'from-file')
  assert.ok('refusals' in readSettings({ ...GOOD, WORKER_TOKEN_FILE: path }))
})

test('the device has the browser that its profile names, and Chrome without one', () => {
  const shown = (name: string) => shownAs(accepted({ ...GOOD, DEVICE_NAME: name }))
  assert.deepEqual(shown('Ubuntu'), Browsers.ubuntu('Chrome'))
  assert.deepEqual(shown('Windows/Edge/120.0'), ['Windows', 'Edge', '120.0'])
  assert.deepEqual(shown('Mac OS/Safari'), Browsers.macOS('Safari'))
  for (const name of ['Ubuntu/Desktop', 'Windows/Edge/new', 'Acme/Chrome'])
    assert.ok('refusals' in readSettings({ ...GOOD, DEVICE_NAME: name }), name)
})

test('the device has the name of a real system', () => {
  const platform = (name: string) => accepted({ ...GOOD, DEVICE_NAME: name }).platform
  assert.deepEqual(['Ubuntu', 'Mac OS', 'Chrome (Windows)', 'linux'].map(platform), [
    'ubuntu',
    'macos',
    'windows',
    'ubuntu',
  ])
})
