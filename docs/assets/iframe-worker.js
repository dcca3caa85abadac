// Search in a site that was opened as files: there no worker may be made of a file, so the same code runs in a frame of
// the page. The theme would fetch such a program from elsewhere, at every page.
if (location.protocol === 'file:') {
  window.Worker = class extends EventTarget {
    #inside
    #loaded

    constructor(address) {
      super()
      const frame = document.createElement('iframe')
      frame.hidden = true
      document.body.append(frame)
      this.#inside = frame.contentWindow
      // What it posts goes to the page, and not to itself.
      this.#inside.postMessage = data => this.dispatchEvent(new MessageEvent('message', { data }))
      this.#inside.importScripts = (...others) => Promise.all(others.map(other => this.#load(other)))
      this.#loaded = this.#load(address)
    }

    postMessage(data) {
      this.#loaded.then(() => this.#inside.dispatchEvent(new MessageEvent('message', { data })))
    }

    terminate() {
      this.#inside.frameElement.remove()
    }

    #load(address) {
      const script = this.#inside.document.createElement('script')
      script.src = new URL(address, document.baseURI)
      return new Promise((resolve, reject) => {
        script.onload = resolve
        script.onerror = reject
        this.#inside.document.head.append(script)
      })
    }
  }
}
