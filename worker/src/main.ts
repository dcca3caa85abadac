// Entry point: `worker.cjs` runs the worker, `worker.cjs export <directory>` writes the account in Baileys' layout.
import './silence-console.ts'
import { Ending, EXIT } from './exit-codes.ts'
import { describeError, makeLog } from './log.ts'
import { type Refusal, readSettings, readStoreSettings } from './settings.ts'
import { openAuth } from './store/auth.ts'
import { Unreadable } from './store/database.ts'
import { writeMultiFile } from './store/multifile-layout.ts'
import { runWorker } from './worker.ts'

/** One line for each value that is missing or wrong; the first decides the exit code. */
function refuse(refusals: Refusal[]): never {
  const log = makeLog(process.env.SESSION_ID ?? '', 'error')
  for (const { exit, variable, problem, example } of refusals)
    log.error('setting.refused', { variable, problem, example, exit })
  process.exit(EXIT[refusals[0]?.exit ?? 'SETTING_INVALID'])
}

async function exportAccount(directory: string | undefined): Promise<void> {
  const read = readStoreSettings(process.env)
  if ('refusals' in read) refuse(read.refusals)
  const log = makeLog(read.settings.sessionId, 'info')
  if (!directory)
    refuse([
      {
        exit: 'SETTING_MISSING',
        variable: 'export',
        problem: 'needs a directory',
        example: 'worker.cjs export ./account',
      },
    ])
  try {
    const { database } = await openAuth(read.settings, undefined, () => undefined)
    log.info('account.exported', { files: writeMultiFile(database, directory) })
    database.close()
  } catch (error) {
    log.error('account.not_exported', { error: describeError(error) })
    process.exit(
      error instanceof Ending ? EXIT[error.exit] : error instanceof Unreadable ? EXIT.AUTH_FAILURE : EXIT.CRASHED,
    )
  }
}

async function main(): Promise<void> {
  if (process.argv[2] === 'export') return exportAccount(process.argv[3])
  const read = readSettings(process.env)
  if ('refusals' in read) refuse(read.refusals)
  await runWorker(read.settings)
}

main().catch((error: unknown) => {
  makeLog(process.env.SESSION_ID ?? '', 'error').error('worker.crashed', { error: describeError(error) })
  process.exit(EXIT.CRASHED)
})
