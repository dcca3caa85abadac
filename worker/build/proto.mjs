// Cuts Baileys' WAProto into its types, so that a worker can load them one by one.
//
// The file is machine-made: every type and every enum is `Owner.Name = (function() { … })();` with the same indentation at
// both ends, and refers to other types only through `$root`. Whatever does not look like that stops the build.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { transform } from 'esbuild'

const HEAD = 'export const proto = $root.proto = (() => {'
const TAIL = ['const proto = {};', 'return proto;', '})();', 'export { $root as default };']
/** What a type's source uses from around it. */
const SURROUNDINGS = '$root, $protobuf, $Reader, $Writer, $util, longToString, longToNumber'
const BEGIN = /^( +)([\w$]+)\.([\w$]+) = \(function\(\) \{$/

/** Cuts lines into what is a type of its own, and the rest. */
function cut(lines) {
  const types = []
  const rest = []
  for (let at = 0; at < lines.length; at++) {
    const begin = BEGIN.exec(lines[at])
    if (!begin) {
      rest.push(lines[at])
      continue
    }
    const [, indent, , name] = begin
    const end = lines.indexOf(`${indent}})();`, at)
    if (end < 0) throw new Error(`WAProto: ${name} has no end`)
    const inside = cut(lines.slice(at + 1, end))
    types.push({ name, body: inside.rest.join('\n'), inner: inside.types })
    at = end
  }
  return { types, rest }
}

/** Splits the source into what comes before the types, and the tree of types. */
export function splitProto(source) {
  const [prelude, code, more] = source.split(HEAD)
  const { types, rest } = cut((code ?? '').split('\n'))
  const left = rest.map(line => line.trim()).filter(Boolean)
  if (more !== undefined || types.length === 0 || left.join('\n') !== TAIL.join('\n'))
    throw new Error('WAProto does not look as expected')
  return { prelude, types }
}

export const countTypes = types => types.reduce((sum, { inner }) => sum + 1 + countTypes(inner), 0)

/** Minifies one type. Only names inside of it become shorter: those of fields are part of the interface. */
async function minify({ name, body }) {
  const { code } = await transform(`made = function(${SURROUNDINGS}) {${body}}`, {
    minify: true,
    charset: 'ascii',
    target: 'node24',
  })
  const [, expression] = /^made=(function\(.*\});\n$/s.exec(code) ?? []
  if (expression === undefined) throw new Error(`WAProto: ${name} cannot be cut out`)
  return expression
}

class Pieces {
  #parts = []
  #length = 0

  /** Adds the types, inner ones first because the outer ones say where they are; returns what says where these are. */
  async add(types) {
    const entries = []
    for (const type of types) {
      const inner = await this.add(type.inner)
      const text = `[${await minify(type)},${JSON.stringify(inner)}]\n`
      entries.push([type.name, this.#length, text.length])
      this.#parts.push(text)
      this.#length += text.length
    }
    return entries
  }

  get text() {
    return this.#parts.join('')
  }
}

/** Makes the file of pieces and the module that reads it. */
export async function makeLazyProto(path, lazyModule) {
  const { prelude, types } = splitProto(await readFile(path, 'utf8'))
  const pieces = new Pieces()
  const entries = await pieces.add(types)
  const text = pieces.text
  const name = `proto-${createHash('sha256').update(text).digest('hex').slice(0, 16)}.txt`
  const module = `
    import { defineLazily, openPieces } from ${JSON.stringify(lazyModule)}
    import { join } from 'node:path'
    ${prelude}
    export const proto = $root.proto = {}
    defineLazily(proto, ${JSON.stringify(entries)}, openPieces(join(__dirname, ${JSON.stringify(name)})), [${SURROUNDINGS}])
    export { $root as default }
  `
  return { name, text, module, count: countTypes(types) }
}
