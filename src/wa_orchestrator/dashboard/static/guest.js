// The page of a one-time link: it asks every 3 seconds how the session is, until that is settled.
const settled = ['start', 'done', 'gone', 'ran_out']
const current = () => document.getElementById('guest')
async function look() {
  if (settled.includes(current().dataset.stage)) return
  try {
    const answer = await fetch(location.href, { headers: { Accept: 'text/html' }, referrerPolicy: 'no-referrer' })
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('guest')
    if (page && page.outerHTML !== current().outerHTML) current().replaceWith(document.adoptNode(page))
  } catch {
    // No network for a moment: the next look tells.
  }
  setTimeout(look, 3000)
}
setTimeout(look, 3000)
