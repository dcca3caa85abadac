// How long "typing" is shown before a message is sent.
const TYPING_START_MS = 600
const TYPING_MS_PER_CHARACTER = 45

/** How long a person would type this. */
export const typingMs = (characters: number, mostMs: number): number =>
  Math.min(mostMs, TYPING_START_MS + characters * TYPING_MS_PER_CHARACTER)
