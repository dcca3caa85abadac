// Evidence that WhatsApp has a message: its ack, a receipt, or an echo. Writing to the socket proves nothing.
import {
  areJidsSameUser,
  type BinaryNode,
  getAllBinaryNodeChildren,
  getBinaryNodeChild,
  getBinaryNodeChildren,
  type WASocket,
} from 'baileys'
import { millisOf } from '../connection/timing.ts'
import { Bounded } from '../store/bounded-cache.ts'

/**
 * `error` is WhatsApp's code when the server refused the message. It may add that the number belongs to another account now
 * (`isReassigned`), and the hash of the devices there are, for which the message should have been encrypted.
 */
export type Proof = { at: number; error?: string; isReassigned?: true; deviceHash?: string }

const MOST_UNKNOWN = 500

const time = ({ attrs }: BinaryNode): number => millisOf(attrs.t)

/** A receipt may stand for several messages, and in a group for several people: then each message is named beside them. */
function receiptIds(node: BinaryNode): string[] {
  const list = getBinaryNodeChild(node, 'list')
  const more = list ? getAllBinaryNodeChildren(list).map(item => item.attrs.id) : []
  const grouped = getBinaryNodeChildren(node, 'participants').map(part => part.attrs.key)
  return [node.attrs.id, ...more, ...grouped].filter(id => id !== undefined)
}

/** Whether a message is one of our account, sent back to us; somebody else may have chosen the same id. */
function isEcho({ attrs }: BinaryNode, me: WASocket['user']): boolean {
  const author = attrs.participant ?? attrs.from
  return attrs.recipient !== undefined || areJidsSameUser(author, me?.id) || areJidsSameUser(author, me?.lid)
}

export class Proofs {
  readonly #waiting = new Map<string, (proof: Proof) => void>()
  readonly #unknown = new Bounded(MOST_UNKNOWN)
  readonly #onLateProof: (whatsappId: string, messageId: string, at: number) => void

  constructor(onLateProof: (whatsappId: string, messageId: string, at: number) => void) {
    this.#onLateProof = onLateProof
  }

  attach(sock: WASocket): void {
    sock.ws.on('CB:ack,class:message', (node: BinaryNode) =>
      this.#found(node.attrs.id, {
        at: time(node),
        ...(node.attrs.error ? { error: node.attrs.error } : {}),
        ...(node.attrs.refresh_lid === 'true' ? { isReassigned: true } : {}),
        ...(node.attrs.phash ? { deviceHash: node.attrs.phash } : {}),
      }),
    )
    sock.ws.on('CB:receipt', (node: BinaryNode) => {
      if (node.attrs.type !== 'server-error') for (const id of receiptIds(node)) this.#found(id, { at: time(node) })
    })
    sock.ws.on('CB:message', (node: BinaryNode) => {
      if (isEcho(node, sock.user)) this.#found(node.attrs.id, { at: time(node) })
    })
  }

  /** Call before sending: the ack may come before the send returns. */
  expect(whatsappId: string): { proof: Promise<Proof>; cancel: () => void } {
    const proof = new Promise<Proof>(resolve => this.#waiting.set(whatsappId, resolve))
    return { proof, cancel: () => this.#waiting.delete(whatsappId) }
  }

  /** Its outcome is unknown: should proof come later, after a reconnect for instance, it is reported then. */
  watchFor(whatsappId: string, messageId: string): void {
    this.#unknown.set(whatsappId, messageId)
  }

  #found(whatsappId: string | undefined, proof: Proof): void {
    if (whatsappId === undefined) return
    const waiting = this.#waiting.get(whatsappId)
    if (waiting) {
      this.#waiting.delete(whatsappId)
      this.#unknown.delete(whatsappId)
      waiting(proof)
      return
    }
    const messageId = this.#unknown.get<string>(whatsappId)
    if (messageId === undefined || proof.error !== undefined) return
    this.#unknown.delete(whatsappId)
    this.#onLateProof(whatsappId, messageId, proof.at)
  }
}
