// Silences console.*: libsignal prints whole sessions with private keys. Must be the first import.
const nothing = (): void => undefined

for (const method of ['log', 'info', 'warn', 'error', 'debug', 'trace', 'dir', 'table'] as const)
  console[method] = nothing

// Node announces its own sqlite as experimental; stdout and stderr carry JSON lines only.
process.removeAllListeners('warning')

export {}
