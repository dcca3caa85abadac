// JSON with bytes as base64, as in Baileys' own files.
type Marked = { type: 'Buffer'; data: unknown }

const isMarked = (value: unknown): value is Marked => (value as Marked | null)?.type === 'Buffer'

function replacer(_key: string, value: unknown): unknown {
  if (value instanceof Uint8Array) return { type: 'Buffer', data: Buffer.from(value).toString('base64') }
  // A Buffer has turned itself into a list of numbers before it comes here.
  if (isMarked(value) && Array.isArray(value.data))
    return { type: 'Buffer', data: Buffer.from(value.data as number[]).toString('base64') }
  return value
}

const reviver = (_key: string, value: unknown): unknown =>
  isMarked(value) && typeof value.data === 'string' ? Buffer.from(value.data, 'base64') : value

export const encode = (value: unknown): Buffer => Buffer.from(JSON.stringify(value, replacer))
export const decode = (bytes: Buffer): unknown => JSON.parse(bytes.toString('utf8'), reviver)
