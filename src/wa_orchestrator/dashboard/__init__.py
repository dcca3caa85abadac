"""Dashboard: server-rendered pages with live updates. It has the same data and the same rules as the API.

`app.install` adds it to an application. `pages/` has a module per page, `routes/actions` the buttons, `live` the live
updates; `login`, `login_throttle` and `guard` are access control. Texts are in `wa_orchestrator.texts`; no library runs
in the browser.
"""
