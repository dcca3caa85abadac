// A test client around unmodified Baileys: default address, everything through SOCKS5, commands on stdin and events on
// the descriptor EVENTS_FD, one JSON object per line. It reconnects only after a pairing (515); every other end is reported.
import { createHash } from 'node:crypto'
import dns from 'node:dns'
import fs from 'node:fs'
import https from 'node:https'
import { createRequire } from 'node:module'
import net from 'node:net'
import readline from 'node:readline'
import tls from 'node:tls'
import { pathToFileURL } from 'node:url'

const { PROXY_URL, AUTH_DIR, PAIRING_PHONE, EVENTS_FD } = process.env
const proxy = new URL(PROXY_URL)
const DIAL_MS = 4000

for (const name of ['log', 'info', 'warn', 'error', 'debug', 'trace']) console[name] = () => {} // libsignal prints keys
const emit = (event, fields = {}) =>
  fs.writeSync(Number(EVENTS_FD), `${JSON.stringify({ event, ...fields }, binary)}\n`)
const binary = (_key, value) => (typeof value === 'bigint' ? String(value) : value)

// -- everything that is looked up or dialled in this process, whoever does it -----------------------------------------
const looked = []
const dialled = []
const connect = net.Socket.prototype.connect
net.Socket.prototype.connect = function (...args) {
  const options = Array.isArray(args[0]) ? args[0][0] : args[0]
  dialled.push(`${options.host ?? options.path}:${options.port ?? ''}`)
  return connect.apply(this, args)
}
for (const [holder, name] of [
  [dns, 'lookup'],
  [dns, 'resolve4'],
  [dns, 'resolve'],
  [dns.promises, 'lookup'],
]) {
  const original = holder[name]
  holder[name] = function (host, ...rest) {
    if (!net.isIP(host)) looked.push(host)
    return original.call(this, host, ...rest)
  }
}

// -- SOCKS5 with remote names -----------------------------------------------------------------------------------------
function dial(host, port, done) {
  const socket = net.connect(Number(proxy.port), proxy.hostname)
  const fail = error => {
    clearTimeout(timer)
    socket.destroy()
    done(error)
  }
  const timer = setTimeout(
    () => fail(Object.assign(new Error('Proxy connection timed out'), { code: 'ETIMEDOUT' })),
    DIAL_MS,
  )
  const short = text => Buffer.concat([Buffer.from([Buffer.byteLength(text)]), Buffer.from(text)])
  const where = Buffer.concat([Buffer.from([5, 1, 0, 3]), short(host), Buffer.from([port >> 8, port & 255])])
  const steps = [
    [
      2,
      answer =>
        answer[1] === 2 &&
        socket.write(Buffer.concat([Buffer.from([1]), short(proxy.username), short(proxy.password)])),
      'no accepted authentication',
    ],
    [2, answer => answer[1] === 0 && socket.write(where), 'Authentication failed'],
    [10, answer => answer[1] === 0, 'proxy rejected connection'],
  ]
  const onReadable = () => {
    while (steps.length) {
      const answer = socket.read(steps[0][0])
      if (!answer) return
      const [, next, complaint] = steps.shift()
      if (next(answer) === false) return fail(new Error(`Socks5 ${complaint} (${answer[1]})`))
    }
    clearTimeout(timer)
    socket.off('readable', onReadable).off('error', fail)
    done(null, socket)
  }
  socket
    .on('readable', onReadable)
    .on('error', fail)
    .on('connect', () => socket.write(Buffer.from([5, 1, 2])))
}
const secure = (options, done) =>
  dial(options.hostname ?? options.host, Number(options.port || 443), (error, socket) => {
    if (error) return done(error)
    const secured = tls.connect({
      socket,
      servername: options.servername || options.hostname || options.host,
      ALPNProtocols: ['http/1.1'],
    })
    secured.once('secureConnect', () => done(null, secured)).once('error', done)
  })
class ThroughProxy extends https.Agent {
  createConnection(options, done) {
    secure(options, done)
  }
}
await fetch('data:,') // loads Node's own undici, whose Agent takes a connector
const Dispatcher = globalThis[Symbol.for('undici.globalDispatcher.1')].constructor
const dispatcher = new Dispatcher({ connect: secure })

// -- the client -------------------------------------------------------------------------------------------------------
const require = createRequire(new URL('../../../worker/package.json', import.meta.url))
const baileys = await import(pathToFileURL(require.resolve('baileys')))
const silent = {
  level: 'silent',
  trace() {},
  debug() {},
  info() {},
  warn() {},
  error() {},
  fatal() {},
  child: () => silent,
}
const received = new Map()
let socket
let saving = Promise.resolve()

async function start() {
  const { state, saveCreds } = await baileys.useMultiFileAuthState(AUTH_DIR)
  socket = baileys.makeWASocket({
    auth: state,
    logger: silent,
    agent: new ThroughProxy(),
    fetchAgent: new ThroughProxy(),
    options: { dispatcher },
    connectTimeoutMs: 15000,
    keepAliveIntervalMs: 1500,
    qrTimeout: 60000,
    shouldSyncHistoryMessage: () => true,
    syncFullHistory: false,
    generateHighQualityLinkPreview: false,
  })
  let asked = false
  socket.ev.on('creds.update', () => {
    saving = saving.then(saveCreds)
  })
  socket.ev.on('connection.update', async update => {
    if (update.qr) {
      emit('qr', { qr: update.qr })
      if (PAIRING_PHONE && !asked) {
        asked = true
        emit('pairing-code', { code: await socket.requestPairingCode(PAIRING_PHONE) })
      }
    }
    if (update.connection === 'open') emit('open', { id: socket.user.id, lid: socket.user.lid, name: socket.user.name })
    if (update.connection === 'close') {
      const code = update.lastDisconnect?.error?.output?.statusCode
      emit('closed', { code, message: update.lastDisconnect?.error?.message })
      if (code === 515) saving.then(start) // it reads from the disk what is being written there
    }
  })
  socket.ev.on('messages.upsert', ({ messages, type }) => {
    for (const message of messages) {
      received.set(message.key.id, message)
      const content = baileys.normalizeMessageContent(message.message)
      const kind = baileys.getContentType(content)
      const body = content?.[kind]
      emit('message', {
        type,
        id: message.key.id,
        from: message.key.remoteJid,
        alt: message.key.remoteJidAlt,
        fromMe: message.key.fromMe,
        participant: message.key.participant,
        name: message.pushName,
        status: message.status,
        kind,
        text: content?.conversation || body?.text || body?.caption,
        expiration: body?.contextInfo?.expiration,
        stub: message.messageStubParameters,
      })
    }
  })
  socket.ev.on('messages.update', updates => {
    for (const { key, update } of updates)
      emit('update', { id: key.id, status: update.status, stub: update.messageStubParameters })
  })
  socket.ev.on('presence.update', update => emit('presence', update))
  socket.ws.on('CB:ack,class:message', ({ attrs }) => emit('ack', { id: attrs.id, error: attrs.error }))
}

const options = ({ id, expiration }) => ({ messageId: id, ephemeralExpiration: expiration })
const commands = {
  send: command => socket.sendMessage(command.to, { text: command.text }, options(command)),
  image: command =>
    socket.sendMessage(
      command.to,
      { image: Buffer.from(command.data, 'base64'), caption: command.caption, jpegThumbnail: '' },
      options(command),
    ),
  download: async ({ id }) => {
    const content = await baileys.downloadMediaMessage(
      received.get(id),
      'buffer',
      { options: { dispatcher } },
      { logger: silent, reuploadRequest: socket.updateMediaMessage },
    )
    return { sha256: createHash('sha256').update(content).digest('hex') }
  },
  presence: ({ kind, to }) => socket.sendPresenceUpdate(kind, to),
  subscribe: ({ to }) => socket.presenceSubscribe(to),
  read: ({ id }) => socket.readMessages([received.get(id).key]),
  lookup: async ({ phone }) => ({ found: await socket.onWhatsApp(phone) }),
  group: async ({ subject, members }) => ({ jid: (await socket.groupCreate(subject, members)).id }),
  version: async () => baileys.fetchLatestWaWebVersion({ dispatcher }),
  reconnect: () => start(),
  logout: () => socket.logout(),
  leak: () => new Promise(resolve => net.connect(9, 'localhost').on('error', () => resolve())),
  network: () => ({ looked: [...new Set(looked)], dialled: [...new Set(dialled)] }),
}
readline
  .createInterface({ input: process.stdin })
  .on('line', async line => {
    const command = JSON.parse(line)
    try {
      const answer = await commands[command.do](command)
      emit('done', { n: command.n, ...(answer?.key ? { id: answer.key.id } : answer) })
    } catch (error) {
      emit('done', { n: command.n, error: String(error?.message ?? error), code: error?.output?.statusCode })
    }
  })
  .on('close', () => saving.then(() => process.exit(0)))
process.on('unhandledRejection', () => {}) // Baileys leaves some behind when a connection ends
await start()
