import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openStore } from './torture.ts'

const ROUNDS = Number(process.env.TORTURE_ROUNDS ?? 50)
const PROGRAM = fileURLToPath(new URL('torture.ts', import.meta.url))
// A killed process loses nothing that it gave to the kernel, so memory does as well as a disk, and needs no waiting for it.
const directory = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'torture-'))

after(() => rmSync(directory, { recursive: true, force: true }))

/** Lets the process write for a while, kills it, and returns the last number that it said was stored. */
function runAndKill(epoch: number, writesBeforeKill: number): Promise<number> {
  const child = spawn(process.execPath, [PROGRAM, directory, String(epoch)], { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
    if (output.split('\n').length > writesBeforeKill) setTimeout(() => child.kill('SIGKILL'), Math.random() * 5)
  })
  return new Promise((resolve, reject) => {
    child.on('close', () => {
      const last = output.split('\n').at(-2)
      if (last === undefined) reject(new Error('the writer ended before it wrote'))
      else resolve(Number(last))
    })
  })
}

async function contents(epoch: number) {
  const { creds, store, close } = await openStore(directory, epoch)
  const one = (type: string) => store.get(type, ['alice']).alice
  const numbers = [
    creds.count,
    Number(String(one('session'))),
    one('identity-key'),
    (one('device-list') as number[])[0],
    one('lid-mapping'),
  ]
  close()
  return { identity: creds.identity, numbers }
}

test(`killed ${ROUNDS} times while it writes, the store keeps one identity and never half of a turn`, async () => {
  let identity: string | undefined
  let last = 0
  for (let round = 1; round <= ROUNDS; round++) {
    const said = await runAndKill(2 * round, 1 + (round % 7))
    const found = await contents(2 * round + 1)
    identity ??= found.identity
    assert.equal(found.identity, identity)
    assert.equal(new Set(found.numbers).size, 1, `half a turn: ${found.numbers.join()}`)
    assert.ok(Number(found.numbers[0]) >= said, `${said} was said to be stored`)
    assert.ok(said > last)
    last = said
  }
})
