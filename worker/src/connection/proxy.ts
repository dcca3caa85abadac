// SOCKS5 tunnel by host name, for the WebSocket, uploads and downloads. Errors name the stage at which they happened.
import { Agent } from 'node:https'
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import type { ProxyAddress } from '../settings.ts'

/** dns and connect: the way to the proxy; auth: its password; tunnel: it refused or could not reach the target; dropped: it closed or hung. */
export type Stage = 'dns' | 'connect' | 'auth' | 'tunnel' | 'dropped'

export class ProxyError extends Error {
  readonly stage: Stage
  constructor(stage: Stage, message: string) {
    super(message)
    this.name = 'ProxyError'
    this.stage = stage
  }
}

/** A proxy that hangs must be noticed within ten seconds; an idle open connection is never touched by this. */
export const DIAL_TIMEOUT_MS = 8_000

const REPLIES = [
  '',
  'general failure',
  'not allowed',
  'network unreachable',
  'host unreachable',
  'connection refused',
  'expired',
  'command not supported',
  'address type not supported',
]

type Attempt = { stage: Stage; socket: Socket | undefined }

function connectToProxy(proxy: ProxyAddress, attempt: Attempt): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp({ host: proxy.host, port: proxy.port })
    attempt.socket = socket
    socket.once('lookup', error => (attempt.stage = error ? 'dns' : 'connect'))
    socket.once('error', error =>
      reject(
        new ProxyError(
          attempt.stage,
          `the proxy cannot be reached (${(error as NodeJS.ErrnoException).code ?? 'error'})`,
        ),
      ),
    )
    socket.once('connect', () => {
      socket.removeAllListeners('error')
      socket.setNoDelay(true)
      socket.setKeepAlive(true, 60_000)
      resolve(socket)
    })
  })
}

/** Reads exactly `size` bytes and leaves the rest in the socket, where TLS will find it. */
function readExactly(socket: Socket, size: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const done = (result: Buffer | Error): void => {
      socket.off('readable', look)
      socket.off('close', closed)
      socket.off('error', failed)
      if (result instanceof Error) reject(result)
      else resolve(result)
    }
    const look = (): void => {
      const bytes = socket.read(size) as Buffer | null
      if (bytes?.length === size) done(bytes)
      else if (bytes) closed()
    }
    const closed = (): void => done(new ProxyError('dropped', 'the proxy closed the connection during the handshake'))
    const failed = (): void => closed()
    socket.on('readable', look)
    socket.on('close', closed)
    socket.on('error', failed)
    look()
  })
}

async function authenticate(socket: Socket, proxy: ProxyAddress): Promise<void> {
  const withPassword = proxy.username !== ''
  socket.write(Buffer.from(withPassword ? [5, 2, 0, 2] : [5, 1, 0]))
  const [version, method] = await readExactly(socket, 2)
  if (version !== 5) throw new ProxyError('connect', 'the proxy does not speak SOCKS5')
  if (method === 0) return
  if (method !== 2 || !withPassword) throw new ProxyError('auth', 'the proxy accepts none of our ways to log in')
  const [user, password] = [Buffer.from(proxy.username), Buffer.from(proxy.password)]
  socket.write(Buffer.concat([Buffer.from([1, user.length]), user, Buffer.from([password.length]), password]))
  const [, status] = await readExactly(socket, 2)
  if (status !== 0) throw new ProxyError('auth', 'the proxy refused the user or password')
}

async function requestTunnel(socket: Socket, host: string, port: number): Promise<void> {
  const name = Buffer.from(host)
  socket.write(Buffer.concat([Buffer.from([5, 1, 0, 3, name.length]), name, Buffer.from([port >> 8, port & 255])]))
  const head = await readExactly(socket, 4)
  const reply = head[1] ?? 1
  if (reply !== 0)
    throw new ProxyError('tunnel', `the proxy could not reach ${host}: ${REPLIES[reply] ?? `reply ${reply}`}`)
  const addressLength = head[3] === 1 ? 4 : head[3] === 4 ? 16 : ((await readExactly(socket, 1))[0] ?? 0)
  await readExactly(socket, addressLength + 2)
}

function secure(socket: Socket, host: string): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const tls = connectTls({ socket, servername: host, ALPNProtocols: ['http/1.1'] })
    const failed = (error: NodeJS.ErrnoException): void => {
      const lost = error.code === undefined || /^E[A-Z]+$/.test(error.code)
      reject(
        new ProxyError(
          lost ? 'dropped' : 'tunnel',
          `no TLS with ${host} through the proxy (${error.code ?? 'closed'})`,
        ),
      )
    }
    tls.once('error', failed)
    tls.once('close', () => failed(new Error('closed')))
    tls.once('secureConnect', () => {
      tls.removeAllListeners('close')
      tls.removeListener('error', failed)
      resolve(tls)
    })
  })
}

async function open(proxy: ProxyAddress, host: string, port: number, attempt: Attempt): Promise<TLSSocket> {
  attempt.stage = 'connect'
  const socket = await connectToProxy(proxy, attempt)
  attempt.stage = 'dropped'
  await authenticate(socket, proxy)
  await requestTunnel(socket, host, port)
  return secure(socket, host)
}

/** Dials `host` by name through the proxy and returns an open TLS connection, or fails with a ProxyError within DIAL_TIMEOUT_MS. */
export async function dial(
  proxy: ProxyAddress,
  host: string,
  port: number,
  timeoutMs = DIAL_TIMEOUT_MS,
): Promise<TLSSocket> {
  const attempt: Attempt = { stage: 'connect', socket: undefined }
  let watchdog: NodeJS.Timeout | undefined
  const hung = new Promise<never>((_, reject) => {
    watchdog = setTimeout(
      () => reject(new ProxyError(attempt.stage, `the proxy did not answer within ${timeoutMs} ms`)),
      timeoutMs,
    )
  })
  const opened = open(proxy, host, port, attempt)
  try {
    return await Promise.race([opened, hung])
  } catch (error) {
    opened.catch(() => undefined)
    attempt.socket?.on('error', () => undefined)
    attempt.socket?.destroy()
    throw error
  } finally {
    clearTimeout(watchdog)
  }
}

type Callback = (error: Error | null, socket?: TLSSocket) => void

/** An agent for https and ws whose every connection goes through the proxy. */
export class TunnelAgent extends Agent {
  readonly proxy: ProxyAddress
  constructor(proxy: ProxyAddress) {
    super({ keepAlive: false })
    this.proxy = proxy
  }
  // Node's types know only the synchronous form; the callback form is documented and is what a dial needs.
  override createConnection(options: object, callback?: (error: Error | null, socket: never) => void): undefined {
    const { host, port } = options as { host: string; port: number | string }
    const done = callback as unknown as Callback
    dial(this.proxy, host, Number(port || 443)).then(
      socket => done(null, socket),
      (error: Error) => done(error),
    )
    return undefined
  }
}

const UNDICI_DISPATCHER = Symbol.for('undici.globalDispatcher.1')

type DispatcherClass = new (options: {
  connect: (target: { hostname: string; port: string }, done: Callback) => void
}) => object

/** A dispatcher for global fetch. It is of Node's own undici: a second copy would cost memory and must match in version. */
export function makeDispatcher(proxy: ProxyAddress): object {
  void globalThis.Response // makes Node load its undici, which sets the global dispatcher
  const builtIn = (globalThis as unknown as Record<symbol, object>)[UNDICI_DISPATCHER]
  if (!builtIn) throw new Error('this Node has no built-in fetch dispatcher')
  const Dispatcher = builtIn.constructor as DispatcherClass
  return new Dispatcher({
    connect: ({ hostname, port }, done) => {
      dial(proxy, hostname, Number(port || 443)).then(
        socket => done(null, socket),
        (error: Error) => done(error),
      )
    },
  })
}
