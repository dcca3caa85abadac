"""Pages for people: the same facts and the same rules as the API, live, in two languages.

`app.install` gives an application its dashboard. `pages` show, `actions` do, `live` keeps up to date, `login` and
`guard` keep the door. Texts are in `texts`, one file per language; no library runs in the browser.
"""
