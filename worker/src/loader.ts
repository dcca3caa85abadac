// Starts the bundle with as little memory and CPU as Node allows. docs/decisions/0003-worker-memory.md has the figures.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { CachedScript } from './cached-script.ts'
import { SETTLED } from './connection/settled-signal.ts'
import { type Look, tidyUp } from './garbage-collection.ts'

/** Every module of Node that the bundle requires; filled in by the build. */
declare const REQUIRED_MODULES: readonly string[]

/**
 * Not on the command line, where they would make V8 reject the compiled form of Node's own modules that comes with Node.
 * Without any compiler to machine code: nothing here runs often enough to be worth the memory that compiling leaves behind.
 */
const FLAGS = ['--no-opt', '--no-maglev', '--no-sparkplug', '--expose-gc']

const LOOK_AGAIN_MS = 20_000

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void

/** Collects what connecting has left behind. Only a new context knows `gc`: ours was made before the flag was set. */
function collect(): void {
  const gc = runInNewContext('gc') as Collect
  gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

function look(): Look {
  const { user, system } = process.cpuUsage()
  return { residentBytes: process.memoryUsage.rss(), cpuMicros: user + system }
}

const bundle = join(__dirname, 'worker.cjs')
const require = createRequire(bundle)
for (const name of REQUIRED_MODULES) require(name)
for (const flag of FLAGS) setFlagsFromString(flag)

const script = new CachedScript(bundle, FLAGS, process.env.CODE_CACHE_DIR || undefined)
process.once(SETTLED as 'disconnect', () => {
  script.keep() // before the collection, which may throw compiled functions away
  tidyUp({ collect, look }, LOOK_AGAIN_MS)
})
script.run(require)
