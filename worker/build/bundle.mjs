// The worker as one minified CommonJS file in pure ASCII, without the parts that it does not need, and the loader that starts it.
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { build } from 'esbuild'
import { makeLazyProto } from './proto.mjs'

const COMMON = {
  write: false,
  bundle: true,
  minify: true,
  platform: 'node',
  target: 'node24',
  format: 'cjs',
  charset: 'ascii', // one other character would make V8 keep the whole source as two-byte text (+5 MB)
  legalComments: 'none', // notices.mjs collects them
  logLevel: 'warning',
  supported: { 'dynamic-import': false }, // becomes require(): a script that is run by the loader has no import()
}

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

/** Node's own modules among what the bundle requires. */
function requiredModules({ outputs }) {
  const imports = Object.values(outputs).flatMap(output => output.imports.map(({ path }) => path))
  return [...new Set(imports.filter(isBuiltin))].sort()
}

/** Builds the worker; `pieces` is the file of types that must lie beside it, `sources` are the files that went in. */
export async function makeBundle(root) {
  const stub = name => join(root, 'src', 'stubs', name)
  const absent = stub('absent.ts')
  let pieces
  const { outputFiles, metafile } = await build({
    ...COMMON,
    entryPoints: [join(root, 'src', 'main.ts')],
    metafile: true,
    define: { 'import.meta.url': '"file:///worker.cjs"' },
    plugins: [lazyProto(stub('lazy-proto.ts'), made => (pieces = made))],
    alias: {
      pino: stub('pino.ts'),
      'whatsapp-rust-bridge': stub('rust-bridge.ts'),
      'curve25519-js': stub('curve25519.ts'),
      // Optional features of the library which the worker does not use: thumbnails, link previews, waveforms.
      sharp: absent,
      jimp: absent,
      'link-preview-js': absent,
      'audio-decode': absent,
      'music-metadata': absent,
    },
  })
  return {
    text: outputFiles[0].text,
    pieces,
    modules: requiredModules(metafile),
    sources: Object.keys(metafile.inputs),
  }
}

/** Builds the loader, which requires these modules of Node before it sets any flag. */
export async function makeLoader(root, modules) {
  const { outputFiles } = await build({
    ...COMMON,
    entryPoints: [join(root, 'src', 'loader.ts')],
    define: { REQUIRED_MODULES: JSON.stringify(modules) },
  })
  return outputFiles[0].text
}
