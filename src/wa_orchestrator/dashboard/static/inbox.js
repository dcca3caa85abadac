// The inbox: opens conversations, sends replies, follows the end of the thread. Like the page's script it makes no HTML of texts:
// rows and bubbles arrive rendered and escaped; what is made here has its text set as text.
const $ = (selector, root = document) => root.querySelector(selector)
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)]
const texts = JSON.parse(document.body.dataset.texts || '{}')
const say = (name, values = {}) => (texts[name] || '').replace(/\{(\w+)\}/g, (_, key) => values[key] ?? '')
const inbox = $('.inbox')
const NEAR_PX = 80
const MOST_KEPT = 300
const SEEN_MS = 1000

// -- panes: one at a time on a small screen
const view = name => {
  inbox.dataset.view = name
}
const scroller = () => $('#messages')
const isAtEnd = () => {
  const box = scroller()
  return !box || box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX
}
function toEnd() {
  const box = scroller()
  if ($('.msgs')?.dataset.cut) return open(location.href) // the end is not here any more
  if (box) box.scrollTop = box.scrollHeight
  count = 0
  showNewBelow()
}
let count = 0
function showNewBelow() {
  const button = $('[data-to-end]')
  if (!button) return
  button.hidden = !count && !$('.msgs')?.dataset.cut
  button.textContent = count ? say('inbox_new_below', { n: count }) : say('inbox_to_end')
}

// -- live parts: new messages are appended, new conversations are counted; a row never moves under a hand
addEventListener('parts', e => {
  const parts = e.detail
  if (parts['thread-order'] !== undefined) appendNew(parts)
  if (parts['inbox-order'] !== undefined) countNew(parts['inbox-order'])
  if (Object.keys(parts).some(id => id.startsWith('m-') || id === 'thread-note')) setTimeout(arrange) // once in place
})
function arrange() {
  placeNote()
  markDays()
}
// People's notes stand where they were written; not before the first message that is here while earlier ones are not.
function placeNote() {
  const note = $('#thread-note.note')
  if (!note) return
  const messages = $$('.msgs > .msg:not(.note)'),
    next = messages.find(message => Number(message.dataset.at) > Number(note.dataset.at))
  note.hidden = Boolean($('[data-earlier]') && next && next === messages[0])
  if (next && note.nextElementSibling !== next) next.before(note)
  if (!next && messages.at(-1)?.nextElementSibling !== note) $('.msgs').append(note)
}
// A line between two days. Each message names its day, in the zone and the language of the page.
function markDays() {
  let day = ''
  for (const message of $$('.msgs > .msg:not([hidden])')) {
    const before = message.previousElementSibling
    const line = before?.matches('.day') ? before : null
    if (message.dataset.day === day) line?.remove()
    else {
      const mark = line ?? document.createElement('li')
      mark.className = 'day'
      mark.textContent = message.dataset.dayName
      if (!line) message.before(mark)
    }
    day = message.dataset.day
  }
  const last = $('.msgs')?.lastElementChild
  if (last?.matches('.day')) last.remove()
}
const idsIn = html => (/data-ids="([^"]*)"/.exec(html)?.[1] || '').split(' ').filter(Boolean)
function appendNew(parts) {
  const list = $('.msgs')
  if (!list || list.dataset.paged || list.dataset.cut) return
  const follows = isAtEnd()
  let last = null
  for (const id of idsIn(parts['thread-order'])) {
    if (document.getElementById(`m-${id}`) || !parts[`m-${id}`]) continue
    const place = document.createElement('li')
    place.id = `m-${id}`
    list.append(place)
    last = id
    if (!follows) count++
  }
  if (last === null) return
  while (list.children.length > MOST_KEPT && follows) list.firstElementChild.remove()
  // After the parts are in place.
  queueMicrotask(() =>
    setTimeout(() => {
      follows ? toEnd() : showNewBelow()
      announce(last)
      seen()
    }),
  )
}
let announcedAt = 0
function announce(id) {
  const message = document.getElementById(`m-${id}`)
  if (!message || message.matches('.ours') || performance.now() - announcedAt < 3000) return
  announcedAt = performance.now()
  const who = $('.sr', message)?.textContent
  $('#said').textContent = who ? `${who} ${$('p', message)?.textContent || ''}` : message.textContent
}
function countNew(html) {
  const button = $('[data-show-new]')
  const fresh = idsIn(html).filter(id => !document.getElementById(`cv-${id}`)).length
  button.hidden = !fresh
  button.textContent = say('inbox_new', { n: fresh })
}

// -- fetching: the address has what is shown; the answer is a page, of which parts are taken
let asked = 0
const threadOf = url => {
  const only = new URL(url, location.href)
  only.searchParams.set('only', 'thread')
  return only.href
}
async function page(url) {
  const mine = ++asked
  const response = await fetch(url, { headers: { Accept: 'text/html' } })
  if (response.redirected && response.url.includes('/login')) location.assign('/login')
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html')
  return mine === asked ? fresh : null
}
function follow(fresh, url) {
  history.replaceState(null, '', url)
  dispatchEvent(
    new CustomEvent('watch', { detail: { watch: fresh.body.dataset.watch, cursor: fresh.body.dataset.cursor } }),
  )
}
async function open(url, { focus = true } = {}) {
  keepDraft()
  const fresh = await page(threadOf(url))
  if (!fresh) return
  for (const selector of ['.p-thread', '.p-facts']) $(selector).replaceWith($(selector, fresh))
  for (const row of $$('.convs a')) row.toggleAttribute('aria-current', false)
  const chosen = new URL(url, location.href).searchParams.get('c')
  $(`[data-open-conversation="${CSS.escape(chosen || '')}"]`)?.setAttribute('aria-current', 'true')
  follow(fresh, url)
  view(chosen ? 'thread' : 'list') // before the end is scrolled to: a pane that is not shown has no end
  begin()
  if (focus && chosen && matchMedia('(min-width: 46.01rem)').matches)
    $('#reply textarea')?.focus({ preventScroll: true })
}
async function list(url) {
  const fresh = await page(url)
  if (!fresh) return
  const held = document.activeElement?.closest('.convs li')?.id
  for (const selector of ['.convs', '.p-list .chips', '#inbox-head']) $(selector).replaceWith($(selector, fresh))
  if (held) $(`#${CSS.escape(held)} a`)?.focus({ preventScroll: true })
  follow(fresh, url)
}
async function more(link) {
  const fresh = await page(link.href)
  if (!fresh) return
  for (const row of $$('#rows > li', fresh)) if (!document.getElementById(row.id)) $('#rows').append(row)
  const next = $('[data-more]', fresh)
  next ? link.replaceWith(next) : link.parentElement.remove()
}
// A page of earlier messages goes in front; beyond the most that are kept, the latest go, and the button leads back to them.
async function earlier(link) {
  if (link.ariaBusy) return
  link.ariaBusy = 'true'
  const fresh = await page(threadOf(link.href))
  link.ariaBusy = null
  if (!fresh || !link.isConnected) return
  const box = scroller(),
    list = $('.msgs'),
    before = box.scrollHeight - box.scrollTop,
    holder = link.closest('li'),
    isHeld = document.activeElement === link
  holder.before(...$$('.msgs > li', fresh).filter(item => !item.id || !document.getElementById(item.id)))
  holder.remove()
  arrange()
  box.scrollTop = box.scrollHeight - before
  while (list.children.length > MOST_KEPT) {
    list.lastElementChild.remove()
    list.dataset.cut = '1'
  }
  arrange()
  if (list.dataset.cut) showNewBelow()
  if (isHeld) $('.msgs a, .msgs button')?.focus({ preventScroll: true })
  watchStart()
}
// What is scrolled to is fetched; the button stays for the keyboard.
let nearStart
function watchStart() {
  nearStart?.disconnect()
  const link = $('[data-earlier]')
  if (!link) return
  nearStart = new IntersectionObserver(
    looks => {
      if (looks.some(look => look.isIntersecting)) earlier(link)
    },
    { root: scroller(), rootMargin: '600px 0px' },
  )
  nearStart.observe(link)
}

// -- read: what was on the screen for a second, in a tab that somebody looks at
let reading
function seen() {
  clearTimeout(reading)
  const messages = $('.msgs')
  if (!messages || !document.body.dataset.csrf || !$('#reply')) return
  reading = setTimeout(() => {
    const last = $$('.msg:not(.ours)', messages).at(-1)
    if (document.hidden || !document.hasFocus() || !last || !isAtEnd() || messages.dataset.seen === last.id) return
    messages.dataset.seen = last.id
    const { conversation, tell = '' } = messages.dataset
    post('conversation-read', { id: conversation, until: last.id.slice(2), tell })
  }, SEEN_MS)
}
addEventListener('focus', seen)
async function post(action, fields) {
  const data = new FormData()
  for (const [name, value] of Object.entries(fields)) data.set(name, value)
  const response = await fetch(`/do/${action}`, {
    method: 'POST',
    body: data,
    headers: { 'X-CSRF-Token': document.body.dataset.csrf },
  })
  return { ok: response.ok, told: await response.json().catch(() => ({})) }
}

// -- presence and drafts: one request says that this person is here, whether they write, and what; it tells who else is.
// A draft is also kept in this tab until the server has it.
const HERE_MS = 10_000
const WRITES_MS = 8_000
const draftKey = id => `draft ${id}`
let typedAt = 0,
  saved = ''
async function here({ id, text, keepalive = false }) {
  const isNew = text !== saved
  const told = {
    conversation: id,
    doing: text && performance.now() - typedAt < WRITES_MS ? 'writing' : 'reading',
    ...(isNew ? { draft: text } : {}),
  }
  try {
    const response = await fetch('/inbox/here', {
      method: 'POST',
      body: JSON.stringify(told),
      keepalive,
      headers: { 'X-CSRF-Token': document.body.dataset.csrf, 'Content-Type': 'application/json' },
    })
    if (!response.ok) return
    if ($('#reply')?.elements.id.value === id) {
      if (isNew) saved = text
      showPresence(await response.json())
    }
    if (sessionStorage.getItem(draftKey(id)) === text) sessionStorage.removeItem(draftKey(id))
  } catch {} // the text stays in this tab
}
function showPresence({ doing, text }) {
  const strip = $('[data-presence]')
  if (!strip) return
  strip.hidden = !text
  strip.dataset.s = doing === 'writing' ? 'warn' : 'idle'
  $('span', strip).textContent = text
}
// A text that is being edited was sent: the draft is what stood in the box before.
const drafted = form => (editing ? editing.draft : form.elements.message.value)
function keepDraft({ keepalive = false } = {}) {
  const form = $('#reply')
  if (!form) return
  const id = form.elements.id.value,
    text = drafted(form)
  if (text === saved) return
  text ? sessionStorage.setItem(draftKey(id), text) : sessionStorage.removeItem(draftKey(id))
  here({ id, text, keepalive })
}
addEventListener('pagehide', () => keepDraft({ keepalive: true }))
function isHere() {
  const form = $('#reply')
  if (form && !document.hidden) here({ id: form.elements.id.value, text: drafted(form) })
}
setInterval(isHere, HERE_MS)
let keeping
function writes() {
  typedAt = performance.now()
  if (keeping) return
  keeping = setTimeout(() => {
    keeping = undefined
    keepDraft()
  }, 2000)
}

// -- reply: text and files; each file is a message of its own, the text is the caption of the first
let files = []
function fail(text) {
  const error = $('#reply [data-error]')
  error.textContent = text
  error.hidden = !text
}
function take(added) {
  const most = Number($('#reply').dataset.most)
  for (const file of added) {
    if (file.size > most) fail(say('inbox_too_large', { name: file.name }))
    else files.push({ file, id: '', error: '' })
  }
  showFiles()
}
function showFiles() {
  const holder = $('.attach')
  holder.hidden = !files.length
  holder.replaceChildren(
    ...files.map((each, at) => {
      const { file, error } = each,
        item = document.createElement('li'),
        name = document.createElement('bdi'),
        remove = document.createElement('button')
      name.textContent = `${file.name} (${Math.max(1, Math.round(file.size / 1000))} kB)`
      remove.type = 'button'
      remove.className = 'btn quiet'
      remove.textContent = '×'
      remove.setAttribute('aria-label', say('inbox_remove', { name: file.name }))
      remove.addEventListener('click', () => {
        files.splice(at, 1)
        showFiles()
      })
      item.append(name)
      if (error) item.append(...failedUpload(error))
      item.append(remove)
      item.dataset.s = error ? 'failed' : ''
      return item
    }),
  )
}
function failedUpload(error) {
  const told = document.createElement('span'),
    again = document.createElement('button')
  told.textContent = error
  told.setAttribute('role', 'alert')
  again.className = 'btn' // it submits the form: the rest of the reply follows
  again.textContent = say('inbox_retry')
  return [told, again]
}
// A file whose upload broke off stays with its chip, which says so; one that the server has is not sent to it twice.
async function upload(each) {
  if (each.id) return each.id
  each.error = ''
  try {
    const response = await fetch('/inbox/upload', {
      method: 'POST',
      body: each.file,
      headers: {
        'X-CSRF-Token': document.body.dataset.csrf,
        'Content-Type': each.file.type || 'application/octet-stream',
        'X-Filename': encodeURIComponent(each.file.name),
      },
    })
    const told = await response.json().catch(() => ({}))
    if (!response.ok) throw new Refusal(told)
    each.id = told.uploadId
    return each.id
  } catch (error) {
    each.error = (error instanceof Refusal && error.message) || say('inbox_upload_cut')
    throw new CutUpload()
  }
}
class CutUpload extends Error {}
async function sendReply(form) {
  const text = form.elements.message.value.trim(),
    fields = { id: form.elements.id.value, to: form.elements.to.value, session: form.elements.session.value }
  const quoting = quoted ? { quote: quoted.id.slice(2) } : {}
  const button = $('button.primary', form)
  if (button.disabled || (!text && !files.length)) return
  button.disabled = true
  fail('')
  try {
    if (editing) return await sendEdit(text)
    for (let first = true; files.length; first = false) {
      const name = files[0].file.name,
        id = await upload(files[0])
      await accepted({ ...fields, ...(first ? quoting : {}), upload: id, filename: name, caption: first ? text : '' })
      files.shift()
      if (first) form.elements.message.value = ''
    }
    showFiles()
    if (form.elements.message.value.trim()) await accepted({ ...fields, ...quoting, message: text })
    form.elements.message.value = ''
    quote(null)
    keepDraft()
    $('#said').textContent = `${say('inbox_queued')} ${$('#reply-eta').textContent}`
    toEnd()
  } catch (error) {
    showFiles()
    if (!(error instanceof CutUpload)) fail(error.message)
  } finally {
    button.disabled = false
    form.elements.message.focus()
  }
}
async function sendEdit(text) {
  const edited = editing
  const { ok, told } = await post('message-edit', { id: edited.message.id.slice(2), text })
  if (!ok) throw new Refusal(told)
  if (editing === edited) endEdit() // it may have been left meanwhile
  $('#said').textContent = wordsOf(told)
}
// One key per attempt of a person: a repetition after a lost answer is the same message.
async function accepted(fields) {
  const key = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()} ${Math.random()}`
  for (let attempt = 0; ; attempt++) {
    try {
      const { ok, told } = await post('reply', { ...fields, key })
      if (!ok) throw new Refusal(told)
      return
    } catch (error) {
      if (error instanceof Refusal || attempt >= 2) throw error
    }
  }
}
function wordsOf(told) {
  const holder = document.createElement('div')
  holder.innerHTML = told.toast || ''
  return $('b', holder)?.textContent || holder.textContent || told.error?.message || ''
}
class Refusal extends Error {
  constructor(told) {
    super(wordsOf(told))
  }
}

// -- quick replies: `/` and letters; Enter fills the box and never sends
const menu = () => $('#quick')
const options = () => $$('[role=option]', menu()).filter(option => !option.hidden)
function showQuick(word) {
  const found = $$('[role=option]', menu())
  for (const option of found) option.hidden = !option.dataset.name.toLowerCase().startsWith(word)
  menu().hidden = !options().length
  $('[data-quick]').setAttribute('aria-expanded', String(!menu().hidden))
  select(options()[0])
}
function select(option) {
  for (const each of $$('[role=option]', menu())) each.setAttribute('aria-selected', String(each === option))
  const box = $('#reply textarea')
  option && !menu().hidden
    ? box.setAttribute('aria-activedescendant', option.id)
    : box.removeAttribute('aria-activedescendant')
}
function hideQuick() {
  menu().hidden = true
  $('[data-quick]').setAttribute('aria-expanded', 'false')
  select(null)
}
function fill(option) {
  const box = $('#reply textarea')
  box.value = option.dataset.text
  hideQuick()
  box.focus()
}

// -- pictures: one that cannot be fetched says so in its place, below the small one if there is that
function pictureFailed(picture) {
  const link = picture.closest('.shot'),
    gone = link && $('img.ahead', link) ? picture : link,
    told = document.createElement('p'),
    text = document.createElement('span'),
    again = document.createElement('button')
  if (!gone || gone.hidden) return
  gone.hidden = true
  told.className = 'soft'
  text.textContent = say('inbox_no_picture')
  again.className = 'btn'
  again.type = 'button'
  again.textContent = say('inbox_try_again')
  again.addEventListener('click', () => {
    told.remove()
    gone.hidden = false
    picture.src = picture.getAttribute('src') // the same address, asked for once more
  })
  told.append(text, again)
  link.after(told)
}
document.addEventListener(
  'error',
  e => {
    if (e.target.matches?.('img[data-small]')) e.target.remove()
    if (e.target.matches?.('img[data-file]')) pictureFailed(e.target)
  },
  true,
)
// What failed before this script ran.
function checkPictures() {
  for (const picture of $$('img[data-small]')) if (picture.complete && !picture.naturalWidth) picture.remove()
  for (const picture of $$('img[data-file]')) if (picture.complete && !picture.naturalWidth) pictureFailed(picture)
}

// -- voice: one plays at a time
function icon(button, name) {
  $('use', button).setAttribute('href', `#${name}`)
}
function play(button) {
  const voice = button.closest('[data-voice]'),
    audio = $('audio', voice)
  if (!audio.paused) return audio.pause()
  for (const other of $$('audio')) if (other !== audio) other.pause()
  audio.play().catch(() => fail(say('inbox_gone')))
}
for (const kind of ['play', 'pause', 'ended', 'timeupdate', 'error'])
  document.addEventListener(
    kind,
    e => {
      const voice = e.target.closest?.('[data-voice]')
      if (!voice || e.target.tagName !== 'AUDIO') return
      const audio = e.target,
        range = $('input', voice)
      icon($('[data-play]', voice), audio.paused ? 'i-play' : 'i-pause')
      if (kind === 'timeupdate') {
        const whole = Number.isFinite(audio.duration) ? audio.duration : Number(range.max)
        range.max = whole
        range.value = audio.currentTime
        $('.done', voice).setAttribute('width', String((176 * audio.currentTime) / (whole || 1)))
      }
    },
    true,
  )
document.addEventListener('input', e => {
  if (e.target.matches('[data-voice] input'))
    $('audio', e.target.closest('[data-voice]')).currentTime = Number(e.target.value)
  if (e.target.matches('#reply textarea')) {
    const typed = /^\/(\S*)$/.exec(e.target.value)
    typed ? showQuick(typed[1].toLowerCase()) : hideQuick()
    writes()
  }
  if (e.target.matches('[data-find] input')) {
    clearTimeout(finding)
    finding = setTimeout(() => find(e.target.form), 250)
  }
})
let finding
function find(form) {
  const url = new URL(location.href)
  url.searchParams.set('q', form.elements.q.value.trim())
  url.searchParams.delete('after')
  list(url.href)
}

document.addEventListener('submit', e => {
  if (e.target.matches('#reply')) {
    e.preventDefault()
    sendReply(e.target)
  }
  if (e.target.matches('[data-find]')) {
    e.preventDefault()
    find(e.target)
  }
  if (e.target.closest('#acts')) $('#acts').hidePopover()
  if (e.target.matches('[data-close-form]')) setTimeout(() => open(location.href, { focus: false }), 400)
})
document.addEventListener('click', e => {
  const at = selector => e.target.closest(selector)
  const plain = !(e.metaKey || e.ctrlKey || e.shiftKey)
  const go = (selector, act) => {
    const link = at(selector)
    if (!link || !plain) return
    e.preventDefault()
    act(link)
  }
  go('[data-open-conversation]', link => open(link.href))
  go('[data-more]', more)
  go('[data-earlier]', earlier)
  go('[data-back]', link => open(link.href))
  go('.p-list .chips a', link => list(link.href))
  if (at('[data-view-to]')) view(at('[data-view-to]').dataset.viewTo)
  if (at('[data-show-new]')) list(location.href)
  if (at('[data-to-end]')) toEnd()
  if (at('[data-quote]')) {
    quoteEarlier()
    $('#reply textarea').focus()
  }
  if (at('[data-unquote]')) editing ? endEdit() : quote(null)
  if (at('[data-acts]')) showActs(at('[data-acts]'))
  if (at('#acts [data-emoji]')) $('#acts').firstElementChild.elements.emoji.value = at('[data-emoji]').dataset.emoji
  if (at('#acts [data-act]')) {
    $('#acts').hidePopover()
    at('[data-act]').dataset.act === 'edit' ? edit(acted()) : quote(acted())
    $('#reply textarea').focus()
  }
  if (at('[data-assign]')) toFacts('assigned')
  if (at('[data-play]')) play(at('[data-play]'))
  if (at('[data-quick]')) menu().hidden ? showQuick('') : hideQuick()
  if (at('[role=option]')) fill(at('[role=option]'))
  const speed = at('[data-speed]')
  if (speed) {
    const audio = $('audio', speed.closest('[data-voice]'))
    audio.playbackRate = { 1: 1.5, 1.5: 2, 2: 1 }[audio.playbackRate] || 1
    $('bdi', speed).textContent = `${audio.playbackRate}×`
  }
})
document.addEventListener('change', e => {
  if (e.target.matches('[data-files]')) {
    take(e.target.files)
    e.target.value = ''
  }
})
document.addEventListener('paste', e => {
  if (e.target.closest('.p-thread') && $('#reply') && e.clipboardData.files.length) {
    e.preventDefault()
    take(e.clipboardData.files)
  }
})
for (const kind of ['dragover', 'dragleave', 'drop'])
  document.addEventListener(kind, e => {
    const form = $('#reply:not([hidden])')
    if (!form || !e.dataTransfer?.types.includes('Files')) return
    e.preventDefault()
    form.classList.toggle('drop', kind === 'dragover')
    if (kind === 'drop') take(e.dataTransfer.files)
  })

addEventListener('keydown', e => {
  if (e.target.matches('#reply textarea')) return inReply(e)
  if (e.target.matches('input, textarea, select') || e.metaKey || e.ctrlKey || e.altKey || $('dialog[open]')) return
  const rows = $$('.convs li a'),
    at = rows.indexOf(document.activeElement)
  if (e.key === 'j' || e.key === 'k')
    rows[Math.min(rows.length - 1, Math.max(0, at + (e.key === 'j' ? 1 : -1)))]?.focus()
  if (e.key === 'r' && $('#reply')) {
    e.preventDefault()
    $('#reply textarea').focus()
  }
  if (e.key === 'n' || e.key === 'a') {
    e.preventDefault()
    toFacts(e.key === 'n' ? 'notes' : 'assigned')
  }
  if (e.key === 'e') $('[data-close-form]')?.requestSubmit()
  if (e.key === 'u' && $('.msgs') && $('#reply')) post('conversation-unread', { id: $('.msgs').dataset.conversation })
  if (e.key === 'Escape') view('list')
})
function toFacts(field) {
  const control = $(`#facts [name=${field}]`)
  if (!control) return
  view('facts')
  control.focus()
}
// -- quote: the last message that they wrote, then the one before it
let quoted = null
function quote(message) {
  if (editing) endEdit()
  quoted = message
  strip(message && shortOf(message))
}
const shortOf = message => (message.dataset.kind ?? $('.say > p', message)?.textContent ?? '').slice(0, 200)
function strip(text) {
  const shown = $('[data-quoted]')
  shown.hidden = text === null
  $('span', shown).textContent = text ?? ''
}
// -- what can be done to one message: quote, react, edit, delete; one menu for all, with the id of the message in its forms
const EDITABLE_MS = 15 * 60_000
const DELETABLE_MS = 60 * 3_600_000
const now = () => Number(document.body.dataset.now) + performance.now()
const acted = () => document.getElementById(`m-${$('#acts [name=id]').value}`)
function showActs(button) {
  const menu = $('#acts'),
    message = button.closest('.msg'),
    may = message.dataset.may.split(' '),
    age = now() - Number(message.dataset.at),
    canReply = !$('#reply').hidden
  for (const field of $$('[name=id]', menu)) field.value = message.id.slice(2)
  $('[data-act=quote]', menu).hidden = !canReply
  $('[data-act=edit]', menu).hidden = !(canReply && may.includes('edit') && age < EDITABLE_MS)
  $('[action$=react]', menu).hidden = !canReply
  $('[action$=delete]', menu).hidden = !(may.includes('delete') && age < DELETABLE_MS)
  $('[data-emoji=""]', menu).hidden = !$('[data-own]', message)
  menu.showPopover()
  const at = button.getBoundingClientRect(),
    { width, height } = menu.getBoundingClientRect()
  const left = Math.min(innerWidth - width - 8, Math.max(8, at.left + at.width / 2 - width / 2))
  const top = at.bottom + height + 12 > innerHeight ? at.top - height - 4 : at.bottom + 4
  menu.style.left = `${left}px`
  menu.style.top = `${Math.max(8, top)}px`
  $('.btn:not([hidden])', menu)?.focus({ preventScroll: true })
}
let editing = null
function edit(message) {
  quote(null)
  const box = $('#reply textarea'),
    text = $('.say > p[dir]', message).textContent
  editing = { message, draft: box.value }
  strip(say('inbox_editing', { text: text.slice(0, 200) }))
  box.value = text
}
function endEdit() {
  $('#reply textarea').value = editing.draft
  editing = null
  strip(null)
}
function quoteEarlier() {
  const theirs = $$('.msg:not(.ours)')
  const at = quoted ? theirs.indexOf(quoted) : theirs.length
  if (at > 0) quote(theirs[at - 1])
}
function inReply(e) {
  const isOpen = !menu().hidden,
    found = options()
  if (isOpen && ['ArrowDown', 'ArrowUp', 'Enter', 'Escape'].includes(e.key)) {
    e.preventDefault()
    const at = found.findIndex(option => option.getAttribute('aria-selected') === 'true')
    if (e.key === 'Escape') hideQuick()
    else if (e.key === 'Enter') fill(found[Math.max(0, at)])
    else select(found[(at + (e.key === 'ArrowDown' ? 1 : -1) + found.length) % found.length])
  } else if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
    e.preventDefault()
    e.target.form.requestSubmit()
  } else if (e.key === 'ArrowUp' && !e.target.value) {
    e.preventDefault()
    quoteEarlier()
  } else if (e.key === 'Escape') editing ? endEdit() : quoted ? quote(null) : e.target.blur()
}

// The pane shrinks and grows with the reply box, a strip and the keyboard of a phone: who reads the end stays there.
let follows = true
const resized = new ResizeObserver(() => {
  if (follows && scroller()) scroller().scrollTop = scroller().scrollHeight
})
// A picture whose size was not told grows once it is here.
document.addEventListener(
  'load',
  e => {
    if (follows && e.target.matches?.('.msgs img')) scroller().scrollTop = scroller().scrollHeight
  },
  true,
)
function scrolled() {
  follows = isAtEnd()
  if (!follows) return
  count = 0
  showNewBelow()
  seen()
}
function begin() {
  files = []
  quoted = null
  editing = null
  const form = $('#reply')
  if (form) {
    saved = form.elements.message.value // as the server has it
    form.elements.message.value = sessionStorage.getItem(draftKey(form.elements.id.value)) ?? saved
    typedAt = 0
    isHere()
  }
  const list = $('.msgs')
  if (list && new URL(location.href).searchParams.has('before')) list.dataset.paged = '1'
  arrange()
  scroller()?.addEventListener('scroll', scrolled, { passive: true })
  follows = true
  resized.disconnect()
  if (scroller()) resized.observe(scroller())
  toEnd()
  seen()
  watchStart()
  checkPictures()
}
begin()
