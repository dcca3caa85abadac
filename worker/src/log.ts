// Log lines: JSON on stdout, an event name and plain fields. Keys, QR codes and message texts are never logged.
import type { SocketConfig } from 'baileys'

type BaileysLogger = SocketConfig['logger']

export type Field = string | number | boolean | undefined
export type Fields = Record<string, Field>

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent']

export type Log = Record<'debug' | 'info' | 'warn' | 'error', (event: string, fields?: Fields) => void>

/** Numbers of seven digits or more are phones or ids of people: only the last four are shown. */
export const maskNumbers = (text: string): string => text.replace(/\d{7,}/g, digits => `*${digits.slice(-4)}`)

/** What may be said of an error: its kind and a short text without long numbers or anything that looks like a key. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const code = (error as NodeJS.ErrnoException).code
  const text = maskNumbers(error.message)
    .replace(/[A-Za-z0-9+/=_-]{24,}/g, '***')
    .slice(0, 200)
  return `${error.name}${code ? ` ${code}` : ''}: ${text}`
}

export function makeLog(
  session: string,
  level: string,
  write: (line: string) => void = line => void process.stdout.write(line),
): Log {
  const threshold = LEVELS.indexOf(level)
  const at = (name: string) => {
    const rank = LEVELS.indexOf(name)
    return (event: string, fields: Fields = {}): void => {
      if (rank >= threshold)
        write(`${JSON.stringify({ time: new Date().toISOString(), level: name, event, session, ...fields })}\n`)
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Baileys' logger: its objects hold nodes, keys and texts, so they are dropped and only its own sentence is kept, at debug level. */
export function baileysLogger(log: Log): BaileysLogger {
  const nothing = (): void => undefined
  const sentence = (first: unknown, message?: string): void => {
    const text = message ?? (typeof first === 'string' ? first : undefined)
    if (text) log.debug('baileys', { text: maskNumbers(text).slice(0, 160) })
  }
  const logger: BaileysLogger = {
    level: 'warn',
    child: () => logger,
    trace: nothing,
    debug: nothing,
    info: nothing,
    warn: sentence,
    error: sentence,
  }
  return logger
}
