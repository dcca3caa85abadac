// The worker as one minified CommonJS file in pure ASCII, without the parts that it does not need.
import { join } from 'node:path'
import { build } from 'esbuild'
import { makeLazyProto } from './proto.mjs'

/** Swaps WAProto for a module that loads its types one by one. */
function lazyProto(lazyModule, onMade) {
  return {
    name: 'lazy-proto',
    setup({ onLoad }) {
      onLoad({ filter: /baileys[\\/]WAProto[\\/]index\.js$/ }, async ({ path }) => {
        const { module, ...pieces } = await makeLazyProto(path, lazyModule)
        onMade(pieces)
        return { contents: module, loader: 'js' }
      })
    },
  }
}

/** Builds `entry` and returns its text and the file of types that must lie beside it. */
export async function makeBundle(root, entry) {
  const stub = name => join(root, 'src', 'stubs', name)
  const absent = stub('absent.ts')
  let pieces
  const { outputFiles } = await build({
    entryPoints: [entry],
    write: false,
    bundle: true,
    minify: true,
    platform: 'node',
    target: 'node24',
    format: 'cjs',
    charset: 'ascii', // one other character would make V8 keep the whole source as two-byte text (+5 MB)
    legalComments: 'none',
    logLevel: 'warning',
    define: { 'import.meta.url': '"file:///worker.cjs"' },
    plugins: [lazyProto(stub('lazy-proto.ts'), made => (pieces = made))],
    alias: {
      pino: stub('pino.ts'),
      'whatsapp-rust-bridge': stub('rust-bridge.ts'),
      // Optional features of the library which the worker does not use: thumbnails, link previews, waveforms.
      sharp: absent,
      jimp: absent,
      'link-preview-js': absent,
      'audio-decode': absent,
      'music-metadata': absent,
    },
  })
  const text = outputFiles[0].text
  for (const [what, content] of [['the bundle', text], ['the file of types', pieces.text]]) {
    if (/[^\x00-\x7f]/.test(content)) throw new Error(`${what} is not pure ASCII`)
  }
  return { text, pieces }
}
