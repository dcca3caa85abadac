// Exit codes of the worker. They are public: the server's runner reads them (see README.md).
export const EXIT = {
  OK: 0, // asked to stop, or an export that succeeded
  SETTING_MISSING: 10,
  SETTING_INVALID: 11,
  PROXY_REFUSED: 12, // PROXY_URL is not socks5h://
  AUTH_DIR_UNUSABLE: 13,
  AUTH_FAILURE: 20, // credentials unreadable or another session's
  LOCKED: 21, // another worker holds the directory
  FENCED: 22, // a newer epoch exists
  LOGGED_OUT: 30,
  REPLACED_ELSEWHERE: 31,
  BANNED: 32,
  TEMPORARY_BAN: 33,
  PASSKEY_REQUIRED: 34,
  CLIENT_OUTDATED: 35,
  QR_EXPIRED: 36,
  ORPHANED: 40, // the server has not answered for ORPHAN_TIMEOUT_MS
  CRASHED: 50,
} as const

export type ExitName = keyof typeof EXIT

/** Ends the worker on purpose; main turns it into the exit code. */
export class Ending extends Error {
  readonly exit: ExitName
  constructor(exit: ExitName, message: string) {
    super(message)
    this.name = 'Ending'
    this.exit = exit
  }
}
