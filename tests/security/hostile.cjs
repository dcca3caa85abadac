// Runs as a worker that was taken over: tries everything in TARGETS and writes what it reached to reached.json.
const { spawnSync } = require('node:child_process')
const dgram = require('node:dgram')
const fs = require('node:fs')
const http = require('node:http')
const net = require('node:net')
const os = require('node:os')
const { join } = require('node:path')

const LIMIT_MS = 3000
const own = process.env.AUTH_DIR
const targets = JSON.parse(process.env.TARGETS || '{}')

const tries = work => {
  try {
    return work() !== false
  } catch {
    return false
  }
}
const reads = path => tries(() => fs.readFileSync(path).length > 0)
const lists = path => tries(() => fs.readdirSync(path).length > 0)
const writes = path => tries(() => fs.writeFileSync(path, 'hostile'))
const readsMemory = pid => tries(() => fs.closeSync(fs.openSync(`/proc/${pid}/mem`, 'r')))

const settles = begin =>
  new Promise(resolve => {
    setTimeout(resolve, LIMIT_MS, false)
    try {
      begin(resolve)
    } catch {
      resolve(false)
    }
  })
const connects = options =>
  settles(resolve => {
    const socket = net.connect(options)
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  })
// A relay takes connections of everybody, and closes those of others at once: only an answer counts.
const answers = options =>
  settles(resolve => {
    const socket = net.connect(options)
    socket.on('connect', () => socket.write('x')).on('error', () => resolve(false)).on('close', () => resolve(false))
    socket.on('data', () => resolve(true))
  })
const any = async attempts => (await Promise.all(attempts)).includes(true)
// A Redis that asks for a password has not been reached.
const asksRedis = path =>
  settles(resolve => {
    const socket = net.connect({ path })
    socket.on('connect', () => socket.write('PING\r\n')).on('error', () => resolve(false))
    socket.on('data', said => resolve(said.toString().startsWith('+PONG')))
  })
const asksServer = url =>
  settles(resolve => http.get(url, said => resolve(said.statusCode === 200)).on('error', () => resolve(false)))
const sends = (host, port) =>
  settles(resolve => {
    const socket = dgram.createSocket('udp4')
    socket.on('error', () => resolve(false)).on('message', () => resolve(true))
    socket.send('hello', port, host, error => error && resolve(false))
  })
const listens = () =>
  settles(resolve => {
    const server = net.createServer()
    server.on('error', () => resolve(false)).listen(0, () => resolve(true))
  })

async function reached() {
  const proxy = new URL(fs.readFileSync(process.env.PROXY_URL_FILE, 'utf8'))
  const { hosts } = targets
  return {
    'its own directory': writes(join(own, 'note')) && reads(join(own, 'note')),
    'its own token': reads(process.env.WORKER_TOKEN_FILE),
    'its proxy': await answers({ host: proxy.hostname, port: Number(proxy.port) }),
    "the server's routes for workers": await asksServer(process.env.WEBHOOK_URL),
    "another session's credentials": reads(targets.otherCredentials) || lists(targets.otherDirectory),
    "another worker's token": reads(targets.otherToken),
    "another worker's memory": readsMemory(targets.otherPid),
    'signals to another worker': tries(() => process.kill(targets.otherPid, 0)),
    'the list of sessions': lists(targets.sessionsDirectory),
    "the server's secrets": reads(targets.secrets),
    "the server's memory": readsMemory(targets.serverPid),
    'signals to the server': tries(() => process.kill(targets.serverPid, 0)),
    "the server's priority": tries(() => os.setPriority(targets.serverPid, 19)),
    "modes of the server's files": tries(() => fs.chmodSync(targets.secrets, 0o604)),
    "Redis' password": reads(targets.redisPassword),
    'Redis, without its password': await asksRedis(targets.redisSocket),
    'sockets of other programs (Unix)': await connects({ path: targets.unixSocket }),
    'sockets of other programs (abstract)': await connects({ path: `\0${targets.abstractSocket}` }),
    'files of the machine that everybody may read': reads(targets.publicFile),
    'whether a file exists, if its path is known': tries(() => fs.statSync(targets.secrets)),
    'the code that other workers run': writes(join(targets.bundle, 'code-0.cache')),
    'new processes': spawnSync(process.execPath, ['--version']).status === 0,
    'a port to listen on': await listens(),
    "another session's proxy": await answers({ host: targets.otherProxy[0], port: targets.otherProxy[1] }),
    'another TCP port of the machine': await any(hosts.map(host => connects({ host, port: targets.otherPort }))),
    'UDP': await any(hosts.map(host => sends(host, targets.udpPort))),
    'the same TCP port of another machine': await connects({ host: targets.elsewhere[0], port: targets.elsewhere[1] }),
  }
}

if (process.env.TARGETS) {
  reached().then(found => {
    fs.writeFileSync(join(own, 'reached.new'), JSON.stringify(found))
    fs.renameSync(join(own, 'reached.new'), join(own, 'reached.json'))
  })
} else fs.writeFileSync(join(own, 'auth.db'), 'canary of another session')
process.on('SIGTERM', () => process.exit(0))
setInterval(() => {}, 1000)
