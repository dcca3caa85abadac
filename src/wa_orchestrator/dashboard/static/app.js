// The page's script: live updates, forms, keyboard shortcuts. Texts come with the page.
// It creates no HTML: parts arrive rendered and escaped from the server.
const $ = (selector, root = document) => root.querySelector(selector)
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)]
const body = document.body
const texts = JSON.parse(body.dataset.texts || '{}')
const say = (name, values = {}) => (texts[name] || '').replace(/\{(\w+)\}/g, (_, key) => values[key] ?? '')
const page = body.dataset.page

// -- time: "9 s ago" is updated here, from the time in the element
const skew = Number(body.dataset.now || Date.now()) - Date.now()
const now = () => Date.now() + skew
function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000))
  for (const [unit, size] of [
    ['d', 86400],
    ['h', 3600],
    ['min', 60],
  ])
    if (s >= size) return say(`unit.${unit}`, { n: Math.floor(s / size) })
  return say('unit.s', { n: s })
}
// The time to a deadline; its end is said by what stands beside it.
function countDown(clock) {
  const s = Math.max(0, Math.ceil((Number(clock.dataset.until) - now()) / 1000))
  const text = `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`
  if (clock.textContent !== text) clock.textContent = text
  $('[data-over]', clock.closest('[data-clock]')).hidden = s > 0
}
function tick() {
  if (document.hidden) return
  for (const time of $$('time[data-ago]')) {
    const text = span(now() - Date.parse(time.dateTime))
    if (time.textContent !== text) time.textContent = text
  }
  const left = $('[data-left]')
  if (left) {
    left.dataset.at ??= now() + Number(left.dataset.left) * 1000
    const text = say('left', { n: Math.max(0, Math.round((Number(left.dataset.at) - now()) / 1000)) })
    if (left.textContent !== text) left.textContent = text
  }
  for (const clock of $$('[data-until]')) countDown(clock)
  mark()
}

// -- live indicator: the time of the last event, or that the server does not respond
const live = { heard: performance.now(), event: 0, lost: 0, ever: false }
const STALE_MS = 30000
const GRACE_MS = 2000 // a connection that comes back within this time was never missed
// Times are shown in the page's zone, as the server's own are; the browser's may be another.
function clock(ms) {
  const options = { timeStyle: 'medium', timeZone: body.dataset.zone || 'UTC' }
  return new Intl.DateTimeFormat('en-GB', options).format(ms)
}
function mark() {
  const element = $('#live')
  if (!element) return
  const silent = performance.now() - live.heard
  const silentTooLong = live.ever && silent > STALE_MS
  const away = live.lost > 0 && performance.now() - live.lost > GRACE_MS
  if (silentTooLong) probe()
  element.classList.toggle('stale', away || silentTooLong)
  element.classList.toggle('away', away)
  const text = away
    ? say('away', { at: clock(now() - silent) })
    : silentTooLong
      ? say('stale', { span: span(silent), at: clock(now() - silent) })
      : liveText()
  const holder = $('[data-live-text]', element)
  if (holder.textContent !== text) holder.textContent = text
}
function liveText() {
  if (!live.ever) return say('live_begin')
  return live.event ? say('live', { ago: span(now() - live.event) }) : say('live_quiet')
}
// A network that is cut leaves the stream open and silent: ask the server, and begin a new stream once it responds.
let probing = false
async function probe() {
  if (probing) return
  probing = true
  const responds = await fetch('/health', { cache: 'no-store', signal: AbortSignal.timeout(5000) }).then(
    response => response.status < 500,
    () => false,
  )
  probing = false
  if (!responds) live.lost ||= performance.now() - GRACE_MS - 1
  else if (!document.hidden && performance.now() - live.heard > STALE_MS) {
    unwatch()
    watch()
  }
}

// -- parts: replaced one by one, but not while in use
const held = new Map()
// Typed text, an open menu and a press delay a part: a button that is replaced before it is let go is not clicked. A focused one keeps the focus.
const typed = element =>
  (element.matches('input, textarea') && element.value !== element.defaultValue) || element.matches('select')
const inHands = element =>
  (element.contains(document.activeElement) && typed(document.activeElement)) ||
  $('details.menu[open]', element) ||
  element.closest('dialog[open]') ||
  element.matches(':active')
const CONTROLS = 'a, button, input:not([type=hidden]), select, summary'
// What was typed and not sent yet goes along into the fresh part, by its form and name.
const CHANGED = 'input:not([type=hidden], [type=file], [type=checkbox], [type=radio]), textarea'
const changedFields = element => $$(CHANGED, element).filter(field => field.name && field.value !== field.defaultValue)
const placeOf = ({ form, name }) => [form?.getAttribute('action'), form?.elements.id?.value, name].join(' ')
function carryOver(typedFields, fresh) {
  for (const field of typedFields) {
    const again = $$(CHANGED, fresh).find(each => placeOf(each) === placeOf(field))
    if (again) again.value = field.value
  }
}
const reachable = element => [...(element.matches(CONTROLS) ? [element] : []), ...$$(CONTROLS, element)]
function swap(id, html) {
  const old = document.getElementById(id)
  if (!old) return
  if (html !== '' && inHands(old)) return void held.set(id, html)
  held.delete(id)
  if (html === '') return void old.remove()
  const holder = document.createElement(old.parentElement.tagName === 'THEAD' ? 'thead' : 'div')
  holder.innerHTML = html
  const fresh = holder.firstElementChild
  // The same again, as after an answer whose event was quicker: replacing it would swallow the click that is on it just now.
  if (!fresh || old.isEqualNode(fresh)) return
  const at = reachable(old).indexOf(document.activeElement)
  for (const open of $$('details[id][open]', old))
    fresh.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute('open', '')
  carryOver(changedFields(old), fresh)
  old.replaceWith(fresh)
  if (at >= 0) (reachable(fresh)[at] || reachable(fresh).at(-1))?.focus({ preventScroll: true })
  fresh.closest('tr[id]')?.classList.add('changed')
  after(id, fresh, old)
}
for (const kind of ['focusout', 'toggle', 'pointerup', 'pointercancel', 'dragend', 'keyup', 'click'])
  addEventListener(
    kind,
    () =>
      setTimeout(() => {
        for (const [id, html] of held) swap(id, html)
      }),
    true,
  )
addEventListener('animationend', e => e.target.classList?.remove('changed'))
function after(id, fresh, old) {
  if (id === 'qr-card') linked(fresh, old)
  if (id === 'chips' || id === 'waiting')
    fresh.querySelector('[aria-current]')?.scrollIntoView?.({ block: 'nearest', inline: 'nearest' })
}

// -- event stream: one per page; a hidden tab disconnects and catches up when it is visible again
let source = null,
  cursor = body.dataset.cursor
const spent = (window.spent = { events: 0, ms: 0, longest: 0, bytes: 0 })
function watch() {
  if (!body.dataset.watch || source) return
  const query = new URLSearchParams(body.dataset.watch)
  query.set('at', cursor)
  source = new EventSource(`/events/ui?${query}`)
  const hear = (kind, act) =>
    source.addEventListener(kind, e => {
      const begun = performance.now()
      cursor = e.lastEventId || cursor
      const told = JSON.parse(e.data)
      Object.assign(live, { heard: performance.now(), event: told.at || live.event, lost: 0, ever: true })
      body.dataset.live = kind
      act(told)
      mark()
      const took = performance.now() - begun
      spent.events++
      spent.ms += took
      spent.longest = Math.max(spent.longest, took)
      spent.bytes += e.data.length
    })
  hear('hello', () => {})
  hear('beat', () => {})
  hear('bye', () => location.assign('/login'))
  hear('parts', told => {
    dispatchEvent(new CustomEvent('parts', { detail: told.parts }))
    for (const [id, html] of Object.entries(told.parts)) swap(id, html)
  })
  hear('lines', told => newLines(told))
  source.onerror = () => {
    live.lost ||= performance.now()
    if (source?.readyState === EventSource.CLOSED) {
      source = null
      setTimeout(watch, 3000)
    }
  }
}
// A page's own script shows something else: from now on that is watched.
addEventListener('watch', e => {
  Object.assign(body.dataset, e.detail)
  cursor = body.dataset.cursor
  unwatch()
  watch()
})
function unwatch() {
  source?.close()
  source = null
  live.lost = 0
}
document.addEventListener('visibilitychange', () => {
  if (document.hidden) unwatch()
  else {
    watch()
    tick()
  }
})
addEventListener('pagehide', unwatch)

// -- lists: a filter or a search fetches the page and replaces the list; the address has the query
let asked = 0
// A list does not change under a press either. Some browsers never end one (a menu took the release), so not for ever.
async function letGo() {
  for (let tries = 0; tries < 60 && body.matches(':active'); tries++) await new Promise(done => setTimeout(done, 50))
}
async function fetchList(url, { push = true } = {}) {
  const mine = ++asked
  unwatch() // what the stream sent meanwhile would be undone by an older page
  try {
    const response = await fetch(url, { headers: { Accept: 'text/html' } })
    if (response.redirected && response.url.includes('/login')) return location.assign('/login')
    const fresh = new DOMParser().parseFromString(await response.text(), 'text/html')
    await letGo()
    if (mine !== asked) return
    showFetched(fresh)
    if (push) history.replaceState(null, '', url)
  } finally {
    if (mine === asked) watch()
  }
}
const LISTED = [
  'list',
  'chips',
  'headline',
  'newer',
  'message-details',
  'slots-headline',
  'slots-notice',
  'pool',
  'attention',
  'tag-limits',
  'profiles',
]
// The stream that begins afterwards sends only what changes from then on: the page has to show what was fetched.
function showFetched(fresh) {
  const ids = picked(),
    giveBack = holdFocus(),
    unfolded = $$('#list details[id][open]').map(details => details.id)
  held.clear()
  for (const id of LISTED) {
    const ours = document.getElementById(id),
      theirs = fresh.getElementById(id)
    if (ours && theirs && !(id !== 'list' && $('#list')?.contains(ours))) ours.replaceWith(theirs)
  }
  if (!$('#list'))
    for (const theirs of $$('#main [id]:not(#toasts, #main [id] [id])', fresh)) swap(theirs.id, theirs.outerHTML)
  for (const id of unfolded) document.getElementById(id)?.setAttribute('open', '')
  giveBack()
  for (const box of $$('.pick')) box.checked = ids.includes(box.value)
  countPicks()
  Object.assign(body.dataset, { watch: fresh.body.dataset.watch, cursor: fresh.body.dataset.cursor })
  cursor = fresh.body.dataset.cursor
}
function holdFocus() {
  const element = document.activeElement,
    row = element.closest('[id]:not(#list, #main)'),
    at = row ? $$('a, button, input, summary', row).indexOf(element) : -1
  return () => {
    if (document.contains(element) || !row) return
    const again = document.getElementById(row.id)
    ;(at < 0 ? again : $$('a, button, input, summary', again || row)[at])?.focus({ preventScroll: true })
  }
}
const refresh = () => fetchList(location.href, { push: false })
let typing
document.addEventListener('input', e => {
  const form = e.target.closest('form[data-search], form[data-filter]')
  if (!form) return
  clearTimeout(typing)
  typing = setTimeout(() => filter(form), e.target.matches('[type=checkbox], select') ? 0 : 180)
})
function filter(form) {
  const data = new FormData(form),
    query = new URLSearchParams()
  for (const name of new Set(data.keys())) {
    const value = data.getAll(name).join(',')
    if (value) query.set(name, value)
  }
  const url = `${form.getAttribute('action')}?${query}`
  if (form.matches('[data-filter]')) location.assign(url)
  else fetchList(url)
}

// -- forms: sent with the CSRF token; the response is a toast
async function send(form, button) {
  const data = new FormData(form)
  if (form.matches('[data-bulk]')) for (const id of picked()) data.append('id', id)
  button?.classList.add('busy')
  let response, told
  try {
    response = await fetch(button?.getAttribute('formaction') || form.getAttribute('action'), {
      method: 'POST',
      body: data,
      headers: { 'X-CSRF-Token': body.dataset.csrf },
    })
    if (response.status === 401) return location.assign('/login')
    told = await response.json()
  } catch {
    return toastText(say('server_away'))
  } finally {
    button?.classList.remove('busy')
  }
  if (told.error && !told.toast) return toastText(told.error.message)
  if (Object.keys(told.parts || {}).length) return replaceParts(form, told.parts)
  answered(form, told)
}
// The answer to a question of an open dialog: its parts are replaced, and it stays open.
function replaceParts(form, parts) {
  const error = $('[data-error]', form)
  if (error) error.hidden = true
  for (const [id, html] of Object.entries(parts)) {
    const holder = document.createElement('div')
    holder.innerHTML = html
    document.getElementById(id)?.replaceWith(holder.firstElementChild)
  }
  armRestore(form)
}
// The button of a restore carries the number that the check has found; 0 cannot be restored.
function armRestore(form) {
  const plan = $('#restore-plan', form),
    button = $('[data-restore]', form)
  button.disabled = !Number(plan.dataset.count)
  if (plan.dataset.button) button.textContent = plan.dataset.button
}
function answered(form, told) {
  const dialog = form.closest('dialog'),
    error = $('[data-error]', form),
    lines = $('[data-lines]', form)
  const plain = () => {
    const holder = document.createElement('div')
    holder.innerHTML = told.toast
    return $('.toast > div', holder)
  }
  if (lines) lines.replaceChildren(plain())
  if (typeof told.left === 'string') $('textarea', form).value = told.left
  if (told.state === 'error' && error) {
    error.replaceChildren(...plain().childNodes)
    error.hidden = false
    return
  }
  if (told.secret && !told.go) showSecret($('b', plain()).textContent, told.secret)
  else if (!lines) toast(told.toast, told.state === 'error')
  if (told.state === 'error') return lines ? refresh() : undefined
  // What was sent is not typed any more.
  for (const field of changedFields(form)) field.defaultValue = field.value
  dialog?.close()
  for (const menu of $$('details.menu[open]')) menu.open = false
  if (told.go)
    return page === 'messages' && told.go.startsWith('/messages') ? fetchList(told.go) : location.assign(told.go)
  const then = form.dataset.after
  if (then === 'reload')
    page === 'session' && form.action.endsWith('/delete')
      ? setTimeout(() => location.assign('/'), 2500)
      : page === 'fleet' && $('#list')
        ? refresh()
        : location.reload()
  if (then === 'refresh' || lines) refresh()
  if (then === 'clear') form.reset()
  if (form.matches('[data-bulk]')) unpick()
}
function showSecret(title, secret) {
  const dialog = $('#secret')
  $('h2', dialog).textContent = title
  $('[data-secret]', dialog).textContent = secret
  $('[data-copy] span', dialog).textContent = say('copy')
  dialog.addEventListener(
    'close',
    () => {
      $('[data-secret]', dialog).textContent = ''
    },
    { once: true },
  )
  dialog.showModal()
}
// Linking with a passkey: the code that is pasted on WhatsApp's site leads back to this page, with the answer in the fragment, which no
// server and no log sees; it is taken out of the address at once.
const backTo = text => text.replaceAll('__BACK__', location.href.split('#')[0])
async function copyCode(button) {
  const code = $('[data-code]')
  const text = backTo(code.textContent)
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    code.textContent = text
    code.closest('details').open = true
    getSelection().selectAllChildren(code)
    document.execCommand('copy')
  }
  $('span', button).textContent = say('copied')
}
function takeAnswer() {
  const form = $('#passkey-answer')
  const found = /^#pk=([\w-]+)$/.exec(location.hash)?.[1]
  if (!form || !found) return
  history.replaceState(null, '', location.pathname)
  form.elements.answer.value = found
  form.requestSubmit()
}
addEventListener('hashchange', takeAnswer)
addEventListener('load', takeAnswer)
async function copy(button) {
  const text = $('[data-secret]')
  getSelection().selectAllChildren(text)
  try {
    await navigator.clipboard.writeText(text.textContent)
  } catch {
    document.execCommand('copy')
  } // no clipboard without TLS
  $('span', button).textContent = say('copied')
}
function toast(html, stays) {
  const holder = document.createElement('div')
  holder.innerHTML = html
  const fresh = holder.firstElementChild
  $('#toasts').append(fresh)
  if (!stays)
    setTimeout(
      () => {
        if (!fresh.matches(':hover, :focus-within')) fresh.remove()
      },
      $('form', fresh) ? 8000 : 5000,
    )
}
function toastText(text) {
  const fresh = document.createElement('div')
  fresh.className = 'toast'
  fresh.dataset.s = 'error'
  fresh.setAttribute('role', 'alert')
  fresh.append(document.createElement('span'), Object.assign(document.createElement('b'), { textContent: text }))
  $('#toasts').append(fresh)
  setTimeout(() => fresh.remove(), 15000)
}
const MOST_NAMES = 8
function nameThem(dialog, names) {
  const list = $('[data-names]', dialog),
    items = names.slice(0, MOST_NAMES)
  if (names.length > MOST_NAMES) items.push(say('more_lines', { n: names.length - MOST_NAMES }))
  list.replaceChildren(
    ...items.map(textContent => {
      const item = document.createElement('li')
      item.append(Object.assign(document.createElement('bdi'), { textContent }))
      return item
    }),
  )
  list.hidden = !items.length
}
function ask(question, verb, names) {
  const dialog = $('#confirm')
  nameThem(dialog, names)
  $('h2', dialog).textContent = question
  $('[data-yes]', dialog).textContent = verb
  dialog.returnValue = ''
  dialog.showModal()
  return new Promise(resolve =>
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true }),
  )
}
document.addEventListener('submit', async e => {
  const form = e.target
  if (form.matches('[data-search]')) {
    e.preventDefault()
    return filter(form)
  }
  if (!form.matches('[data-do]')) return
  e.preventDefault()
  const button = e.submitter
  const menu = form.closest('details.menu')
  if (
    form.dataset.confirm &&
    !(await ask(
      form.dataset.confirm.replace('{n}', picked().length),
      button.textContent.trim().replace('…', ''),
      form.matches('[data-bulk]') ? pickedNames() : [],
    ))
  )
    return
  if (menu) menu.open = false
  send(form, button)
})

// A chosen file goes into the field beside it, where it can be seen and corrected. Spreadsheets write UTF-8, or Hebrew in Windows-1255.
document.addEventListener('change', async e => {
  const file = e.target.matches('[data-into]') && e.target.files[0]
  if (!file) return
  const bytes = await file.arrayBuffer()
  let text
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    text = new TextDecoder('windows-1255').decode(bytes)
  }
  e.target.form.elements[e.target.dataset.into].value = text
})

// -- selecting rows
const picked = () => $$('.pick:checked').map(box => box.value)
const pickedNames = () => $$('.pick:checked').map(box => box.getAttribute('aria-label'))
function countPicks() {
  const boxes = $$('.pick'),
    n = picked().length,
    all = $('.pick-all')
  if (all) {
    all.checked = n > 0 && n === boxes.length
    all.indeterminate = n > 0 && n < boxes.length
  }
  for (const element of $$('[data-picked]')) element.textContent = n
}
function unpick() {
  for (const box of $$('.pick:checked')) box.checked = false
  countPicks()
}
document.addEventListener('change', e => {
  if (e.target.matches('.pick-all')) for (const box of $$('.pick')) box.checked = e.target.checked
  if (e.target.matches('.pick, .pick-all')) countPicks()
})

// -- dialogs, menus, theme
function openDialog(button) {
  const dialog = document.getElementById(button.dataset.open),
    form = $('form', dialog)
  const error = $('[data-error]', dialog)
  if (error) error.hidden = true
  if (dialog.id === 'delete') {
    const ids = button.matches('[data-bulk]') ? picked() : [button.dataset.id],
      one = ids.length === 1
    $('[data-name]', dialog).textContent = one ? button.dataset.name || pickedNames()[0] || ids[0] : ''
    nameThem(dialog, one ? [] : pickedNames())
    $('[data-one]', dialog).hidden = !one
    $('[data-several]', dialog).hidden = one
    $('[data-count]', dialog).textContent = ids.length
    $('[data-ids]', dialog).replaceChildren(
      ...ids.map(value => Object.assign(document.createElement('input'), { type: 'hidden', name: 'id', value })),
    )
  }
  if (button.dataset.values) {
    form.reset()
    for (const [name, value] of Object.entries(JSON.parse(button.dataset.values))) form.elements[name].value = value
    const named = $('[data-name]', dialog)
    if (named) named.textContent = button.dataset.name
  }
  if (dialog.id === 'limits') {
    $('[data-name]', dialog).textContent = button.dataset.name
    form.elements.id.value = button.dataset.id
    form.elements.per_day.value = button.dataset.day
    form.elements.per_minute.value = button.dataset.minute
    form.elements.acknowledge.checked = false
    $('[data-preset-day]', dialog).textContent = button.dataset.presetDay
    $('[data-preset-minute]', dialog).textContent = button.dataset.presetMinute
  }
  if (dialog.id === 'restore') {
    form.reset()
    form.elements.id.value = button.dataset.id
    $('[data-name]', dialog).textContent = button.dataset.name
    $('[data-only-sealed]', dialog).hidden = !button.matches('[data-sealed]')
    $('[data-check]', dialog).hidden = !button.matches('[data-sealed]')
    const plan = $('#restore-plan', dialog)
    plan.replaceChildren()
    plan.removeAttribute('data-count')
    armRestore(form)
    if (!button.matches('[data-sealed]')) send(form, $('[data-check]', dialog))
  }
  dialog.showModal()
}
// A plan that was computed for another choice is not carried out.
document.addEventListener('change', e => {
  const form = e.target.closest('#restore form')
  if (!form || !e.target.matches('[data-recheck]')) return
  $('[data-restore]', form).disabled = true
  clearTimeout(typing)
  typing = setTimeout(() => send(form, $('[data-check]', form)), 250)
})
function openRowMenu(button) {
  const dialog = $('#row-menu'),
    { id, name, rests } = button.dataset
  $('[data-name]', dialog).textContent = name
  $('[data-href]', dialog).href = $('[data-href]', dialog).dataset.href + encodeURIComponent(id)
  for (const field of $$('[name=id]', dialog)) field.value = id
  for (const field of $$('[name=name_]', dialog)) field.value = name
  Object.assign($('[data-open=delete]', dialog).dataset, { id, name })
  $('[data-only=start]', dialog).hidden = !rests
  $('[data-only=stop]', dialog).hidden = Boolean(rests)
  dialog.showModal()
}
document.addEventListener('click', e => {
  const at = selector => e.target.closest(selector)
  if (at('[data-row-menu]')) openRowMenu(at('[data-row-menu]'))
  if (e.target.matches('#row-menu')) e.target.close()
  const open = at('[data-open]')
  if (open && !open.disabled) {
    open.closest('#row-menu')?.close()
    openDialog(open)
  }
  at('[data-cancel]')?.closest('dialog').close()
  at('[data-close]')?.closest('.toast').remove()
  if (at('[data-copy]')) copy(at('[data-copy]'))
  if (at('[data-copy-code]')) copyCode(at('[data-copy-code]'))
  if (at('[data-unpick]')) unpick()
  if (at('[data-refresh]')) {
    e.preventDefault()
    refresh()
  }
  const chip = at('a[data-chip], .picks a[id^=msg-]')
  if (chip && !e.metaKey && !e.ctrlKey && !e.shiftKey && $('#list')) {
    e.preventDefault()
    fetchList(chip.href).then(() => {
      if (chip.id && innerWidth <= 1088) $('#message-details')?.scrollIntoView()
    })
  }
  if (at('[data-theme-button]')) {
    const root = document.documentElement,
      dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
    at('[data-theme-button]').form.elements.theme.value = dark ? 'light' : 'dark'
    if (page !== 'login') {
      e.preventDefault()
      root.dataset.theme = dark ? 'light' : 'dark'
      fetch('/choose', { method: 'POST', body: new FormData(at('[data-theme-button]').form), redirect: 'manual' })
    }
  }
  for (const menu of $$('details.menu[open]')) if (!menu.contains(e.target)) menu.open = false
})

// -- scanning: success is shown, played and announced; then the next session follows
let audio
function beep() {
  if (!$('#sound')?.checked) return
  try {
    audio ??= new AudioContext()
    for (const [at, pitch] of [
      [0, 660],
      [0.12, 990],
    ]) {
      const tone = audio.createOscillator(),
        gain = audio.createGain()
      tone.frequency.value = pitch
      gain.gain.setValueAtTime(0.15, audio.currentTime + at)
      gain.gain.exponentialRampToValueAtTime(0.001, audio.currentTime + at + 0.25)
      tone.connect(gain).connect(audio.destination)
      tone.start(audio.currentTime + at)
      tone.stop(audio.currentTime + at + 0.3)
    }
    window.beeped = (window.beeped || 0) + 1
  } catch {
    /* a browser without sound still shows it */
  }
}
function linked(card, before) {
  if (card.dataset.state !== 'connected' || before.dataset.state === 'connected') return
  beep()
  $('#said').textContent = say('connected_said')
  if (!$('#go-on')?.checked || !card.dataset.next) return
  $('[data-next-in]', card).hidden = false
  setTimeout(() => {
    if ($('#go-on').checked) location.assign(`/scan?id=${encodeURIComponent(card.dataset.next)}`)
  }, 3000)
}
function nextToLink() {
  const links = $$('#waiting .picks')[0] ? $$('#waiting > .picks:first-of-type a') : []
  const at = links.findIndex(link => link.hasAttribute('aria-current'))
  links[(at + 1) % links.length]?.click()
}

// -- live log: while it is paused, new lines are counted and kept
const MOST_LINES = 500
let paused = false,
  waitingLines = [],
  skipped = 0
function newLines(told) {
  skipped += told.skipped
  waitingLines.push(...told.lines)
  if (waitingLines.length > MOST_LINES) waitingLines.splice(0, waitingLines.length - MOST_LINES)
  if (paused || scrollY > 200) return notePaused()
  showLines()
}
function showLines() {
  const log = $('#log'),
    holder = document.createElement('div')
  $('[data-empty]', log)?.remove()
  for (const html of waitingLines) {
    holder.innerHTML = html
    const line = holder.firstElementChild
    if (!$(`[data-cursor="${line.dataset.cursor}"]`, log)) log.prepend(line)
  }
  while (log.children.length > MOST_LINES) log.lastElementChild.remove()
  waitingLines = []
  skipped = 0
  notePaused()
}
function notePaused() {
  const note = $('#paused-note')
  note.hidden = !waitingLines.length && !paused
  $('[data-waiting]', note).textContent = waitingLines.length + skipped
}
function pauseLog(value) {
  paused = value
  const button = $('#pause-log')
  button.setAttribute('aria-pressed', paused)
  $('[data-running]', button).hidden = paused
  $('[data-paused]', button).hidden = !paused
  paused ? notePaused() : showLines()
}
if (page === 'live-log') {
  $('#pause-log').addEventListener('click', () => pauseLog(!paused))
  $('[data-show-waiting]').addEventListener('click', () => {
    scrollTo({ top: 0 })
    paused ? pauseLog(false) : showLines()
  })
  addEventListener(
    'scroll',
    () => {
      if (!paused && scrollY <= 200 && waitingLines.length) showLines()
    },
    { passive: true },
  )
}

// -- keyboard shortcuts: none while typing
let going = 0
const PAGES = {
  f: '/',
  i: '/inbox',
  c: '/contacts',
  s: '/scan',
  m: '/messages',
  p: '/proxies',
  a: '/anti-ban',
  l: '/live-log',
}
addEventListener('keydown', e => {
  if (e.key === 'Escape')
    for (const menu of $$('details.menu[open]')) {
      menu.open = false
      $('summary', menu).focus()
    }
  if (
    e.target.matches('input:not([type=checkbox], [type=radio]), textarea, select') ||
    e.metaKey ||
    e.ctrlKey ||
    e.altKey ||
    $('dialog[open]')
  )
    return
  const key = e.key.toLowerCase()
  if (going > Date.now() && PAGES[key]) return location.assign(PAGES[key])
  going = key === 'g' ? Date.now() + 1500 : 0
  const rows = $$('.fleet tbody .name, #list .picks a'),
    at = rows.indexOf(document.activeElement.closest?.('tr')?.querySelector('.name') || document.activeElement)
  if (key === '/') {
    e.preventDefault()
    $('.search input:not([type=hidden])')?.focus()
  }
  if (key === '?') $('#keys')?.showModal()
  if (key === 'j' || key === 'k') rows[Math.min(rows.length - 1, Math.max(0, at + (key === 'j' ? 1 : -1)))]?.focus()
  if (key === 'x') document.activeElement.closest('tr')?.querySelector('.pick')?.click()
  if (key === 'p' && page === 'live-log') pauseLog(!paused)
  if (page === 'scan' && key === 'n' && !going) {
    e.preventDefault()
    const button = $('[data-open=new-session]')
    if (!button.disabled) openDialog(button)
  }
  if (page === 'scan' && ['arrowright', 'arrowleft', 'enter'].includes(key) && !e.target.matches('a, button, summary'))
    nextToLink()
})

// -- start
if (page === 'enter') {
  const token = location.hash.slice(1)
  history.replaceState(null, '', '/enter')
  $('#enter').elements.token.value = token
  if (token) $('#enter').requestSubmit()
}
for (const dialog of $$('dialog[data-auto]')) dialog.showModal()
// A line of filters that is wider than the screen begins where the current one is.
for (const chip of $$('.chips > [aria-current]')) {
  const at = chip.getBoundingClientRect(),
    line = chip.parentElement.getBoundingClientRect()
  if (at.left < line.left || at.right > line.right)
    chip.parentElement.scrollLeft += (at.left + at.right - line.left - line.right) / 2
}
if (location.hash === '#add') $('[data-open=add-proxy]')?.click()
watch()
setInterval(tick, 1000)
tick()
