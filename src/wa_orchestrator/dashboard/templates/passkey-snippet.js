// Asks the passkey of this WhatsApp account for one approval, to link one device.
// It sends nothing, reads no storage and loads nothing. It works once, for ten minutes.
(() => {
  if (location.origin !== __ORIGIN__) return alert('Wrong site: open web.whatsapp.com')
  const bytes = text => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), c => c.charCodeAt(0))
  const text = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '')
  const panel = document.createElement('div')
  panel.id = 'passkey-panel'
  panel.style.cssText = 'position:fixed;inset:auto 1rem 1rem auto;z-index:99999;background:#fff;color:#000;padding:1rem;border:2px solid;max-width:24rem'
  const add = (tag, words) => panel.appendChild(Object.assign(document.createElement(tag), { textContent: words }))
  add('p', __LABEL__)
  add('button', 'Sign with passkey').onclick = async () => {
    const options = { challenge: bytes(__CHALLENGE__), rpId: __RP_ID__, userVerification: 'required', timeout: 600000 }
    const given = await navigator.credentials.get({ publicKey: options }).catch(error => error)
    if (!given?.rawId) return add('p', 'No passkey was given (' + given?.name + '). Nothing is used up: press Sign again.')
    const { rawId, type, response: r } = given
    const answer = JSON.stringify({
      id: text(rawId), rawId: text(rawId), type,
      response: {
        clientDataJSON: text(r.clientDataJSON), authenticatorData: text(r.authenticatorData),
        signature: text(r.signature), userHandle: r.userHandle ? text(r.userHandle) : null,
      },
    })
    const area = add('textarea', answer)
    area.onfocus = () => area.select()
    add('button', 'Send back').onclick = () => location.assign('__BACK__#pk=' + text(new TextEncoder().encode(answer)))
  }
  document.body.append(panel)
})()
