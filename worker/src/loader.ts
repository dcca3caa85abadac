// Starts the bundle beside it with as little memory and CPU as Node allows. What each step saves is in docs/decisions/0003-worker-memory.md.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { CachedScript } from './cached-script.ts'
import { SETTLED } from './settling.ts'

/** Every module of Node that the bundle requires; filled in by the build. */
declare const REQUIRED_MODULES: readonly string[]

/**
 * Not on the command line, where they would make V8 reject the compiled form of Node's own modules that comes with Node.
 * Without the optimizing compiler and the baseline one: code runs rarely here, and stays. Maglev remains, because signing needs it.
 */
const FLAGS = ['--no-opt', '--no-sparkplug', '--expose-gc']

/** Small pieces are cut from a pool, which lives as long as the last of them. */
const POOL_BYTES = 4_096

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void

/** Collects what connecting has left behind. Only a new context knows `gc`: ours was made before the flag was set. */
function collectGarbage(): void {
  const collect = runInNewContext('gc') as Collect
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

const bundle = join(__dirname, 'worker.cjs')
const require = createRequire(bundle)
for (const name of REQUIRED_MODULES) require(name)
for (const flag of FLAGS) setFlagsFromString(flag)
Buffer.poolSize = POOL_BYTES

const script = new CachedScript(bundle, FLAGS)
process.on(SETTLED as 'disconnect', () => {
  script.keep() // before the collection, which may throw compiled functions away
  collectGarbage()
})
script.run(require)
