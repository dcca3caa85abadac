import assert from 'node:assert/strict'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { test } from 'node:test'
import { dial, ProxyError } from '../src/connection/proxy.ts'

const listen = (serve: (socket: Socket) => void): Promise<Server> =>
  new Promise(resolve => {
    const server = createServer(socket => {
      socket.on('error', () => undefined)
      serve(socket)
    })
    server.listen(0, '127.0.0.1', () => resolve(server))
  })

/** One that answers at once may take long on a busy machine; one that never does is waited for no longer than it takes to see that. */
const PATIENCE_MS = 60_000
const SILENCE_MS = 300

/** Dials through a server that answers with these bytes, one piece per piece it receives. */
async function stageWith(answers: readonly (readonly number[] | 'close')[], patienceMs: number): Promise<string> {
  const open: Socket[] = []
  const server = await listen(socket => {
    open.push(socket)
    const waiting = [...answers]
    socket.on('data', () => {
      const answer = waiting.shift()
      if (answer === 'close') socket.destroy()
      else if (answer) socket.write(Buffer.from(answer))
    })
  })
  const { port } = server.address() as AddressInfo
  try {
    await dial({ host: '127.0.0.1', port, username: 'user', password: 'canary' }, 'web.whatsapp.com', 443, patienceMs)
    return 'open'
  } catch (error) {
    assert.ok(error instanceof ProxyError)
    assert.ok(!error.message.includes('canary'))
    return error.stage
  } finally {
    for (const socket of open) socket.destroy()
    server.close()
  }
}

const AUTH = [5, 2]
const WELCOME = [1, 0]
const GRANTED = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]

for (const [name, answers, stage, patienceMs = PATIENCE_MS] of [
  ['a refused password', [AUTH, [1, 1]], 'auth'],
  ['no accepted way to log in', [[5, 0xff]], 'auth'],
  ['something that is no SOCKS5 server', [[72, 84]], 'connect'],
  ['a target that is refused', [AUTH, WELCOME, [5, 2, 0, 1, 0, 0, 0, 0, 0, 0]], 'tunnel'],
  ['a target that is unreachable', [AUTH, WELCOME, [5, 4, 0, 3, 1, 65, 0, 0]], 'tunnel'],
  ['a connection that is closed in the handshake', ['close'], 'dropped'],
  ['a connection that is closed before TLS', [AUTH, WELCOME, GRANTED, 'close'], 'dropped'],
  ['a proxy that says nothing', [], 'dropped', SILENCE_MS],
  ['a tunnel that says nothing', [AUTH, WELCOME, GRANTED], 'dropped', SILENCE_MS],
] as const) {
  test(`${name} fails at the stage ${stage}`, async () => {
    assert.equal(await stageWith(answers, patienceMs), stage)
  })
}

test('a port where nobody listens fails at the stage connect', async () => {
  const server = await listen(() => undefined)
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  await assert.rejects(dial({ host: '127.0.0.1', port, username: '', password: '' }, 'web.whatsapp.com', 443), {
    stage: 'connect',
  })
})

test('the target goes to the proxy as a name, never as an address', async () => {
  let request: Buffer | undefined
  const server = await listen(socket => {
    let step = 0
    socket.on('data', data => {
      step += 1
      if (step === 1) socket.write(Buffer.from([5, 0]))
      else {
        request = data
        socket.destroy()
      }
    })
  })
  const { port } = server.address() as AddressInfo
  await assert.rejects(dial({ host: '127.0.0.1', port, username: '', password: '' }, 'web.whatsapp.com', 443))
  server.close()
  assert.deepEqual([...(request?.subarray(0, 5) ?? [])], [5, 1, 0, 3, 16])
  assert.equal(request?.subarray(5, 21).toString(), 'web.whatsapp.com')
})
