// The licences of the packages in the bundle: whoever gets the bundle gets their notices.
import { readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'

const PACKAGE = /^.*node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+/
const NOTICE = /^(licen[cs]e|copying|notice)/i
const RULE = '-'.repeat(80)

/** Returns one text with the name, version, licence and notices of every package that a source file belongs to. */
export async function collectNotices(root, sources) {
  const places = new Set(sources.map(path => PACKAGE.exec(resolve(root, path))?.[0]).filter(Boolean))
  const parts = await Promise.all([...places].sort().map(describe))
  return `The worker contains the following packages.\n\n${parts.join(`\n${RULE}\n\n`)}`
}

async function describe(place) {
  const { name, version, license } = JSON.parse(await readFile(join(place, 'package.json'), 'utf8'))
  const files = (await readdir(place)).filter(file => NOTICE.test(file)).sort()
  const texts = await Promise.all(files.map(file => readFile(join(place, file), 'utf8')))
  return [`${name} ${version}: ${license ?? 'see below'}`, ...texts.map(text => text.trim())].join('\n\n') + '\n'
}
