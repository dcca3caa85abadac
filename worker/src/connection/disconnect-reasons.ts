// Disconnect codes and what follows from each: one table.
import type { ExitName } from '../exit-codes.ts'
import { ProxyError } from './proxy.ts'

export type Reason =
  | 'CONNECTION_LOST'
  | 'CONNECTION_CLOSED'
  | 'SERVICE_UNAVAILABLE'
  | 'RESTART_REQUIRED'
  | 'BAD_SESSION'
  | 'BAD_FRAME'
  | 'QR_EXPIRED'
  | 'LOGGED_OUT'
  | 'REPLACED_ELSEWHERE'
  | 'BANNED'
  | 'TEMPORARY_BAN'
  | 'CLIENT_OUTDATED'
  | 'MULTI_DEVICE_OFF'

/** A frame of WhatsApp that could not be decoded. The ciphers of a connection count its frames, so only a new one can go on. */
export class BadFrame extends Error {
  override name = 'BadFrame'
}

export type End =
  | { kind: 'proxy'; error: ProxyError }
  /** Connect again at once, with nothing counted as a failure. */
  | { kind: 'restart'; reason: Reason; code: number }
  /** Connect again after a pause. */
  | { kind: 'retry'; reason: Reason; code: number }
  /** Ask for a newer version once, then connect again. */
  | { kind: 'outdated'; reason: Reason; code: number }
  /** Report and end; the server decides what comes next. */
  | { kind: 'final'; reason: Reason; code: number; exit: ExitName; endsAt?: number }

const FINAL: Record<number, { reason: Reason; exit: ExitName }> = {
  401: { reason: 'LOGGED_OUT', exit: 'LOGGED_OUT' },
  402: { reason: 'TEMPORARY_BAN', exit: 'TEMPORARY_BAN' },
  403: { reason: 'BANNED', exit: 'BANNED' },
  406: { reason: 'BANNED', exit: 'BANNED' },
  411: { reason: 'MULTI_DEVICE_OFF', exit: 'LOGGED_OUT' },
  440: { reason: 'REPLACED_ELSEWHERE', exit: 'REPLACED_ELSEWHERE' },
}

const RETRIED: Record<number, Reason> = { 408: 'CONNECTION_LOST', 428: 'CONNECTION_CLOSED', 503: 'SERVICE_UNAVAILABLE' }

type Boomlike = Error & { output?: { statusCode?: number }; data?: unknown }

/** When a temporary ban ends, where WhatsApp says so: `expire` holds the seconds that remain. */
function banEnd(data: unknown, now: number): number | undefined {
  const seconds = Number((data as { expire?: string } | undefined)?.expire)
  return Number.isFinite(seconds) && seconds > 0 ? now + seconds * 1000 : undefined
}

/**
 * Reads the error of a closed connection. A proxy's failure and a broken session both come as 500: they are told apart by the
 * error itself, never by the number, and neither touches the credentials.
 */
export function classify(error: unknown, now: number): End {
  const boom = error as Boomlike | undefined
  if (boom instanceof ProxyError) return { kind: 'proxy', error: boom }
  if (boom?.data instanceof ProxyError) return { kind: 'proxy', error: boom.data }
  if (boom instanceof BadFrame) return { kind: 'retry', reason: 'BAD_FRAME', code: 500 }
  const code = boom?.output?.statusCode ?? 428
  const final = FINAL[code]
  if (final) {
    const endsAt = code === 402 ? banEnd(boom?.data, now) : undefined
    return { kind: 'final', ...final, code, ...(endsAt === undefined ? {} : { endsAt }) }
  }
  if (code === 515) return { kind: 'restart', reason: 'RESTART_REQUIRED', code }
  if (code === 405) return { kind: 'outdated', reason: 'CLIENT_OUTDATED', code }
  if (code === 408 && boom?.message.startsWith('QR refs')) return { kind: 'restart', reason: 'QR_EXPIRED', code }
  return { kind: 'retry', reason: RETRIED[code] ?? 'BAD_SESSION', code }
}
