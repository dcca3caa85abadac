// Builds what a worker is started from: dist/loader.cjs, dist/worker.cjs and the file of message types beside them.
// Nothing but Node itself is resolved at run time.
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeBundle, makeLoader } from './bundle.mjs'
import { collectNotices } from './notices.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const dist = process.argv[2] ?? join(root, 'dist')

/** Writes under another name and renames: a worker that starts meanwhile sees the old file or the new one, never half of one. */
async function write(name, text) {
  if (/\P{ASCII}/u.test(text)) throw new Error(`${name} is not pure ASCII`)
  const unfinished = join(dist, `${name}.${process.pid}.new`)
  await writeFile(unfinished, text)
  await rename(unfinished, join(dist, name))
}

const { text, pieces, modules, sources } = await makeBundle(root)
const loader = await makeLoader(root, modules)

await mkdir(dist, { recursive: true })
// The types first, under a name that says what is in them: whichever bundle a worker reads finds its own.
await write(pieces.name, pieces.text)
await write('worker.cjs', text)
await write('loader.cjs', loader)
await writeFile(join(dist, 'THIRD-PARTY.txt'), await collectNotices(root, sources))
// Compiled forms of older bundles: nobody needs them, and who has read one keeps it.
for (const name of await readdir(dist)) if (/^code-.*\.cache$/.test(name)) await rm(join(dist, name), { force: true })
