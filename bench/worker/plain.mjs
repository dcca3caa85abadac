// The yardstick: Baileys as its own guide uses it, one process per account, through the same proxy. Prints its QR and when it is open.
import https from 'node:https'
import { createRequire } from 'node:module'
import net from 'node:net'
import tls from 'node:tls'
import { pathToFileURL } from 'node:url'

const { PROXY_URL, AUTH_DIR } = process.env
const proxy = new URL(PROXY_URL)
const say = line => process.stdout.write(`${JSON.stringify(line)}\n`)
console.info = console.warn = () => {} // libsignal prints keys

const short = text => Buffer.concat([Buffer.from([Buffer.byteLength(text)]), Buffer.from(text)])

function tunnel(host, port, done) {
  const socket = net.connect(Number(proxy.port), proxy.hostname, () => socket.write(Buffer.from([5, 1, 2])))
  const steps = [
    [2, () => socket.write(Buffer.concat([Buffer.from([1]), short(proxy.username), short(proxy.password)]))],
    [
      2,
      () => socket.write(Buffer.concat([Buffer.from([5, 1, 0, 3]), short(host), Buffer.from([port >> 8, port & 255])])),
    ],
    [10, () => socket.off('readable', look).off('error', done) && done(null, socket)],
  ]
  const look = () => {
    for (let bytes; steps.length && (bytes = socket.read(steps[0][0])); ) steps.shift()[1](bytes)
  }
  socket.on('readable', look).on('error', done)
}

class ThroughProxy extends https.Agent {
  createConnection({ host, port }, done) {
    tunnel(host, Number(port || 443), (error, socket) => {
      if (error) return done(error)
      const secured = tls.connect({ socket, servername: host }, () => done(null, secured)).once('error', done)
    })
  }
}

const require = createRequire(new URL('../../worker/package.json', import.meta.url))
const { makeWASocket, useMultiFileAuthState } = await import(pathToFileURL(require.resolve('baileys')))

async function start() {
  const { state, saveCreds } = await useMultiFileAuthState(AUTH_DIR)
  const socket = makeWASocket({ auth: state, agent: new ThroughProxy() })
  socket.ev.on('creds.update', saveCreds)
  socket.ev.on('connection.update', ({ connection, qr, lastDisconnect }) => {
    if (qr) say({ event: 'qr', qr })
    if (connection === 'open') say({ event: 'open' })
    if (connection === 'close' && lastDisconnect?.error?.output?.statusCode === 515) start()
  })
}

await start()
