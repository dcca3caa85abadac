// Starts the bundle beside it with as little memory and CPU as Node allows. What each step saves is in docs/decisions/0003-worker-memory.md.
import { createHash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { constants, runInNewContext, Script } from 'node:vm'
import { SETTLED } from './settling.ts'

/** Loaded before any flag is set: a flag makes V8 reject the compiled form of Node's own modules, which is part of its binary. */
const BUILT_IN = ['async_hooks', 'buffer', 'events', 'fs/promises', 'http', 'https', 'net', 'os', 'sqlite', 'stream', 'stream/promises', 'tls', 'url', 'util', 'zlib']
const FLAGS = (process.env.LFLAGS ?? '--no-opt --max-lazy --optimize-for-size --single-threaded --expose-gc').split(' ').filter(Boolean)
const POOL_BYTES = 4_096

const bundle = join(__dirname, 'worker.cjs')
const require = createRequire(bundle)
for (const name of BUILT_IN) require(`node:${name}`)
for (const flag of FLAGS) setFlagsFromString(flag)
Buffer.poolSize = POOL_BYTES
if (process.env.CA) {
  const t = require('node:tls')
  t.setDefaultCACertificates([readFileSync(process.env.NODE_EXTRA_CA_CERTS as string, 'utf8')])
}

const source = readFileSync(bundle, 'latin1')
const key = createHash('sha256').update(source).update(process.version).update(process.arch).update(FLAGS.join()).update(process.execArgv.join()).digest('hex')
const cache = join(dirname(bundle), `code-${key.slice(0, 16)}.cache`)

function readCache(): Buffer | undefined {
  if (process.env.NOCACHE) return undefined
  try {
    return readFileSync(cache)
  } catch {
    return undefined
  }
}
const cachedData = readCache()
const script = new Script(`(function(exports,require,module,__filename,__dirname){${source}\n})`, { filename: bundle, cachedData, importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER })
if (process.env.DEBUGL) process.stderr.write(`cache ${cachedData?.length} rejected ${script.cachedDataRejected}\n`)
process.once(SETTLED as never, () => {
  if (!process.env.NOCACHE && (cachedData === undefined || script.cachedDataRejected)) {
    writeFileSync(cache + process.pid, script.createCachedData())
    renameSync(cache + process.pid, cache)
  }
  if (process.env.GC === 'query') (require('node:v8') as { queryObjects: (c: unknown, o: object) => void }).queryObjects(class Nothing {}, { format: 'count' })
  else if (process.env.GC === 'glob') (globalThis.gc as NonNullable<typeof gc>)({ type: 'major', execution: 'sync', flavor: 'last-resort' } as never)
  else if (!process.env.NOGC) (runInNewContext('gc') as NonNullable<typeof gc>)({ type: 'major', execution: 'sync', flavor: 'last-resort' } as never)
})
const main = { exports: {} }
script.runInThisContext()(main.exports, require, main, bundle, __dirname)
