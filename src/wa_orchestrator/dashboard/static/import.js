// Moving in: finds accounts in picked files, has each checked, and takes them over when somebody asks for it.
const $ = (selector, root = document) => root.querySelector(selector)
const CREDENTIALS = 'creds.json'
// Names of directories that say nothing about whose account is in them.
const NAMELESS = new Set(['auth', 'auth_info', 'auth_info_baileys', 'baileys_auth_info', 'session'])
const found = $('#found')
const form = $('#import-form')
const button = $('.primary', form)
const progress = $('[data-progress]')
const accounts = []
let isBusy = false

function named(place) {
  const parts = place.split('/').filter(Boolean)
  const last = parts.at(-1) || ''
  const meant = NAMELESS.has(last) && parts.length > 1 ? parts.at(-2) : last.replace(/\.json$/, '')
  const plain =
    meant
      .replace(/[^A-Za-z0-9_-]+/g, '-')
      .replace(/^-+|-+$/g, '')
      .slice(0, 60) || 'imported'
  const taken = new Set(accounts.map(each => each.id))
  let id = plain
  for (let n = 2; taken.has(id); n++) id = `${plain}-${n}`
  return id
}

// Every directory that has credentials is an account; what lies beside them goes with them.
function inFolder(files) {
  const places = new Map()
  for (const file of files) {
    const place = file.webkitRelativePath.split('/').slice(0, -1).join('/')
    if (file.name.endsWith('.json')) places.set(place, [...(places.get(place) || []), file])
  }
  return [...places].filter(([, inside]) => inside.some(file => file.name === CREDENTIALS))
}

function add(place, files, isDocument) {
  const account = { number: accounts.length, place, id: named(place), files, isDocument, ok: false, done: false }
  accounts.push(account)
  return account
}

async function content(account) {
  const texts = await Promise.all(account.files.map(file => file.text()))
  if (account.isDocument) return { document: texts[0] }
  return { files: Object.fromEntries(account.files.map((file, at) => [file.name, texts[at]])) }
}

async function ask(act, account, more = {}) {
  const { number, place, id } = account
  const response = await fetch(`/import/${act}`, {
    method: 'POST',
    body: JSON.stringify({ number, place, id, ...(await content(account)), ...more }),
    headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': document.body.dataset.csrf },
  })
  if (response.status === 401) return location.assign('/login')
  const told = await response.json()
  if (!told.row) throw new Error(told.error?.message || progress.dataset.away)
  account.ok = told.ok
  const holder = document.createElement('tbody')
  holder.innerHTML = told.row
  const old = document.getElementById(`account-${number}`)
  if (old) old.replaceWith(holder.firstElementChild)
  else $('tbody', found).append(holder.firstElementChild)
}

const ready = () => accounts.filter(each => each.ok && !each.done)

function arm() {
  const count = ready().length
  const text = count === 0 ? button.dataset.zero : count === 1 ? button.dataset.one : button.dataset.other
  button.textContent = text.replace('{n}', count)
  button.disabled = isBusy || !count || !form.elements.off.checked
  $('[data-count]').textContent = accounts.length
  const moved = accounts.filter(each => each.done).length
  const title = $('#headline')
  const says = moved ? title.dataset.done : accounts.length ? title.dataset.found : title.dataset.none
  const good = accounts.filter(each => each.ok).length
  title.textContent = says.replace('{n}', moved || good).replace('{total}', accounts.length)
}

// One account after another: each may have megabytes of keys. `work` returns what to say at the end.
async function oneByOne(list, work) {
  isBusy = true
  arm()
  for (const [at, account] of list.entries()) {
    progress.textContent = progress.dataset.text.replace('{n}', at + 1).replace('{total}', list.length)
    try {
      await work(account)
      progress.textContent = ''
    } catch (error) {
      account.ok = false
      // A picked file that changed since cannot be read any more: the old program still writes.
      progress.textContent = error.name === 'NotReadableError' ? progress.dataset.running : error.message
      break
    }
  }
  isBusy = false
  arm()
}

async function picked(list) {
  found.hidden = false
  if (!list.length) {
    progress.textContent = progress.dataset.none
    return arm()
  }
  await oneByOne(list, account => ask('check', account))
  if (!progress.textContent) progress.textContent = progress.dataset.same
}

$('#import-folder').addEventListener('change', e => {
  picked(inFolder(e.target.files).map(([place, files]) => add(place, files, false)))
})
$('#import-documents').addEventListener('change', e => {
  picked([...e.target.files].map(file => add(file.name, [file], true)))
})
form.addEventListener('change', arm)
form.addEventListener('submit', async e => {
  e.preventDefault()
  const { tags, proxy } = form.elements
  const more = { tags: tags.value, proxy: proxy.value, old_place_is_off: form.elements.off.checked }
  await oneByOne(ready(), async account => {
    await ask('take', account, more)
    account.done = account.ok
  })
})
