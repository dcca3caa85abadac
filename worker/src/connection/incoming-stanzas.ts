// What happens to a stanza before Baileys reads it, and to those that Baileys leaves unanswered or answers in a way that
// stops the delivery of everything else.
import { type BinaryNode, buildAckStanza, getBinaryNodeChild, S_WHATSAPP_NET, type WASocket } from 'baileys'
import { Ending } from '../exit-codes.ts'
import { describeError, type Log } from '../log.ts'

const PING = 'urn:xmpp:ping'
const STATUS = 'status@broadcast'

type Listener = (...parameters: unknown[]) => unknown

/** Not WhatsApp's fault: the database failed under a handler of the frame, or a newer worker has fenced us. */
export const isOurs = (error: unknown): boolean =>
  error instanceof Ending || (error as NodeJS.ErrnoException | undefined)?.code === 'ERR_SQLITE_ERROR'

/** Baileys emits each stanza under many names: what it answers, what it is, and what it contains. */
const stanzaEvent = (event: string | symbol): string | undefined =>
  typeof event === 'string' && /^(frame$|CB:|TAG:)/.test(event) ? event : undefined

const isStatus = (event: string, stanza: unknown): boolean =>
  event.startsWith('CB:message') && (stanza as BinaryNode | undefined)?.attrs.from === STATUS

/**
 * Hands stanzas to those that listen for them. A listener that cannot read one costs that stanza: neither the connection,
 * nor the other listeners, nor the process. And a status that somebody posts is kept from Baileys. It refuses one that it cannot
 * decrypt, and WhatsApp then delivers that first at each login and holds back all that has waited behind it.
 */
export function guardStanzas(sock: WASocket, log: Log): void {
  const { ws } = sock
  const emit = ws.emit.bind(ws)
  const failed = (event: string, error: unknown): void => {
    if (isOurs(error)) throw error
    log.error('stanza.not_handled', { event: event.split(',', 1)[0], error: describeError(error) })
  }
  const hand = (listener: Listener, event: string, parameters: unknown[]): void => {
    try {
      const result = listener.apply(ws, parameters)
      // What Baileys does in answer to an announcement, nobody waits for.
      if (result instanceof Promise && event.startsWith('CB:ib')) result.catch(error => failed(event, error))
    } catch (error) {
      failed(event, error)
    }
  }
  ws.emit = (name: string | symbol, ...parameters: unknown[]): boolean => {
    const event = stanzaEvent(name)
    if (event === undefined) return emit(name, ...parameters)
    if (isStatus(event, parameters[0])) {
      if (event === 'CB:message') ackStatus(sock, parameters[0] as BinaryNode)
      return true
    }
    const listeners = ws.rawListeners(event) as Listener[]
    for (const listener of listeners) hand(listener, event, parameters)
    return listeners.length > 0
  }
  // A status may also come as a stanza of its own, which Baileys does not know; unacknowledged it comes again and again.
  ws.on('CB:status', (stanza: BinaryNode) => ackStatus(sock, stanza))
}

function ackStatus(sock: WASocket, stanza: BinaryNode): void {
  sock.sendNode(buildAckStanza(stanza, undefined, sock.user?.id)).catch(() => undefined)
}

/** WhatsApp asks whether we are there, in one of two forms, and hangs up on whoever does not answer; Baileys asks, and never answers. */
export function answerPings(sock: WASocket): void {
  sock.ws.on('CB:iq', (iq: BinaryNode) => {
    const { type, xmlns, from, id } = iq.attrs
    if (type === 'result' || type === 'error' || !(xmlns === PING || getBinaryNodeChild(iq, 'ping'))) return
    const attrs = { to: from ?? S_WHATSAPP_NET, type: 'result', ...(id ? { id } : {}) }
    sock.sendNode({ tag: 'iq', attrs }).catch(() => undefined)
  })
}
