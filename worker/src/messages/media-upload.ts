// Uploads of files to WhatsApp.
import type { WAMediaUploadFunction, WASocket } from 'baileys'

/**
 * Uploads a file, and once more to the hosts that WhatsApp names now if none of the known ones takes it: Baileys keeps them for an
 * hour, and asks anew only if one of them answers.
 */
export const uploadOf =
  (sock: WASocket): WAMediaUploadFunction =>
  async (file, options) => {
    try {
      return await sock.waUploadToServer(file, options)
    } catch {
      await sock.refreshMediaConn(true)
      return sock.waUploadToServer(file, options)
    }
  }
