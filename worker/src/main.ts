import './quiet.ts'
import { DEFAULT_CONNECTION_CONFIG } from 'baileys'

process.stdout.write(JSON.stringify({ event: 'worker.bundled', version: DEFAULT_CONNECTION_CONFIG.version }) + '\n')
