// Outcomes of one send attempt and the codes reported for them. Pure.
import type { Nack } from '../server/outbox.ts'

export type Outcome =
  | { kind: 'sent'; at: number }
  | { kind: 'failed'; nack: Nack }
  /** The lease was lost before anything was written: someone else has the message now. */
  | { kind: 'abandoned' }
  /** We stop while the ack is pending: the lease decides. */
  | { kind: 'left' }

export const failed = (code: string, error: string, retryable: 'retry' | 'give up'): Outcome => ({
  kind: 'failed',
  nack: { code, error, retryable: retryable === 'retry' },
})

/** Codes that another attempt with the same id may cure. */
const CURABLE = new Set(['421', '429', '496'])

/**
 * An error in WhatsApp's ack. 463 must never be repeated: each try counts as another reach-out. It stands for a lock of the
 * account, and also for a person who has given no sign of acquaintance: which of them only WhatsApp's own word on locks tells.
 */
export function refusedByWhatsApp(code: string, isLocked = false): Outcome {
  if (code === '463' && isLocked)
    return failed('REACHOUT_LOCKED', 'WhatsApp does not let this account begin new chats now', 'give up')
  if (code === '463') return failed('NO_TRUST_TOKEN', 'WhatsApp wants a sign that this person knows us', 'give up')
  if (code === '400') return failed('ADDRESSING', 'WhatsApp does not take this name of the recipient', 'give up')
  if (code === '475') return failed('NEW_CHAT_CAP', 'the allowance of new chats is used up', 'give up')
  const retry = CURABLE.has(code) || Number(code) >= 500
  return failed(`WA_${code}`, `WhatsApp refused the message with code ${code}`, retry ? 'retry' : 'give up')
}

type Boomlike = { output?: { statusCode?: number }; message?: string }

/** An error thrown while sending. Whether anything was written is unknown, so the same id is used again. */
export function failedToSend(error: unknown): Outcome {
  const { output, message = '' } = (error ?? {}) as Boomlike
  if (output?.statusCode === 428 || /connection (closed|terminated)/i.test(message))
    return failed('SOCKET_CLOSED', 'the connection closed while sending', 'retry')
  if (/upload/i.test(message)) return failed('MEDIA_UPLOAD_FAILED', 'WhatsApp did not take the media', 'retry')
  return failed('SEND_FAILED', 'the message could not be sent', 'retry')
}
