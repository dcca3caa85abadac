// Builds dist/worker.cjs: one minified CommonJS file in pure ASCII, with nothing to resolve at run time but Node itself.
import { mkdir, readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const outfile = join(root, 'dist', 'worker.cjs')
const unfinished = `${outfile}.${process.pid}.new`
const absent = join(root, 'src', 'stubs', 'absent.ts')

await mkdir(dirname(outfile), { recursive: true })
await build({
  entryPoints: [join(root, 'src', 'main.ts')],
  outfile: unfinished,
  bundle: true,
  minify: true,
  platform: 'node',
  target: 'node24',
  format: 'cjs',
  charset: 'ascii', // one other character would make V8 keep the whole source as two-byte text (+5 MB)
  legalComments: 'none',
  logLevel: 'warning',
  define: { 'import.meta.url': '"file:///worker.cjs"' },
  alias: {
    pino: join(root, 'src', 'stubs', 'pino.ts'),
    // Optional features of the library which the worker does not use: thumbnails, link previews, waveforms.
    sharp: absent,
    jimp: absent,
    'link-preview-js': absent,
    'audio-decode': absent,
    'music-metadata': absent,
  },
})

const written = await readFile(unfinished)
if (written.some(byte => byte > 0x7f)) throw new Error('the bundle is not pure ASCII')
await rename(unfinished, outfile) // a worker that starts meanwhile sees the old bundle or the new one, never half of one
