// Stands for pino, which Baileys imports only for a default logger that the worker never uses.
type Silent = { level: string; child: () => Silent } & Record<string, unknown>

const nothing = (): void => undefined

const silent: Silent = {
  level: 'silent',
  child: () => silent,
  trace: nothing,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  fatal: nothing,
}

export default function pino(): Silent {
  return silent
}
