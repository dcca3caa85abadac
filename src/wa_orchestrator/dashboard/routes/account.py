"""Routes of a person's own account: password and second factor. Each change ends the account's other logins."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import segno
from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from wa_orchestrator import audit_log
from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import accounts, guard
from wa_orchestrator.dashboard.guard import LoggedInPerson
from wa_orchestrator.dashboard.html.renderer import PageContent, Renderer
from wa_orchestrator.dashboard.login import Authenticator, Person
from wa_orchestrator.dashboard.routes.actions import error_sentence
from wa_orchestrator.dashboard.routes.login import FormText, client_of
from wa_orchestrator.domain.access import second_factor
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.access import people
from wa_orchestrator.store.access.people import Account


class AccountRoutes(APIRouter):
    def __init__(self, context: Context, renderer: Renderer, auth: Authenticator) -> None:
        super().__init__(include_in_schema=False)
        self._context, self._scripts, self._renderer, self._auth = context, context.scripts, renderer, auth
        self.get("/account")(self._page)
        self.post("/account/password")(self._password)
        self.post("/account/factor-begin")(self._begin)
        self.post("/account/factor-confirm")(self._confirm)
        self.post("/account/factor-off")(self._off)

    async def _page(self, request: Request, person: LoggedInPerson) -> Response:
        if not person.account:  # logged in with the installation's own password: there is nothing to change here
            return guard.with_security_headers(RedirectResponse("/", status_code=303))
        return await self._show(request, person, saved="saved" in request.query_params)

    async def _password(
        self, request: Request, person: LoggedInPerson, password: FormText = "", old: FormText = "", csrf: FormText = ""
    ) -> Response:
        async def change(account: Account) -> Account:
            if _needs_old(person, account):
                await self._require_password(account, old)
            return await accounts.set_password(self._scripts, account.id, password)

        return await self._carry_out(request, person, csrf, change, "account.password")

    async def _begin(self, request: Request, person: LoggedInPerson, csrf: FormText = "") -> Response:
        guard.require_csrf_token(request, person, csrf)
        if not (await self._account(person)).totp:
            await accounts.begin_enrolment(self._context, person.token_hash)
        return guard.with_security_headers(RedirectResponse("/account", status_code=303))

    async def _confirm(
        self, request: Request, person: LoggedInPerson, code: FormText = "", csrf: FormText = ""
    ) -> Response:
        codes: list[str] = []

        async def change(account: Account) -> Account:
            secret = accounts.enrolment_secret(self._context, person.token_hash, person.enrolment)
            changed, made = await accounts.confirm_enrolment(self._context, account.id, secret, code)
            codes.extend(made)
            return changed

        return await self._carry_out(request, person, csrf, change, "account.second_factor_on", codes=codes)

    async def _off(
        self, request: Request, person: LoggedInPerson, code: FormText = "", csrf: FormText = ""
    ) -> Response:
        async def change(account: Account) -> Account:
            if not account.totp:
                raise Refused("CODE_WRONG", "There is no second factor to turn off.", 422)
            # As at the login: a stolen cookie must not be enough to guess it.
            if await self._auth.refuse_code(account, code, client_of(request).address) is not None:
                raise Refused("CODE_WRONG", "This is not right. Try again.", 422)
            return await accounts.turn_off(self._scripts, account.id)

        return await self._carry_out(request, person, csrf, change, "account.second_factor_off")

    async def _carry_out(
        self,
        request: Request,
        person: Person,
        csrf: str,
        change: Callable[[Account], Awaitable[Account]],
        action: str,
        *,
        codes: Sequence[str] = (),
    ) -> Response:
        """Change the account and renew this login, or show why not. The change fills `codes`, which are shown once."""
        guard.require_csrf_token(request, person, csrf)
        try:
            changed = await change(await self._account(person))
        except Refused as refusal:
            return await self._show(request, person, refusal)
        return await self._renewed(request, person, changed, action, codes)

    async def _account(self, person: Person) -> Account:
        account = await people.find(self._scripts, person.account) if person.account else None
        if account is None:
            raise Refused("NO_SUCH_PERSON", "You are logged in without an account. Ask an administrator for one.", 404)
        return account

    async def _require_password(self, account: Account, password: str) -> None:
        """Refuse a wrong password, and slow the next down: a stolen cookie must not be enough to guess it."""
        proof = partial(self._auth.is_password_of, password, account)
        if await self._auth.refuse_proof(f"password {account.id}", proof) is not None:
            raise Refused("PASSWORD_WRONG", "This is not right. Try again.", 422)

    async def _renewed(
        self, request: Request, person: Person, account: Account, action: str, codes: Sequence[str]
    ) -> Response:
        """Give this browser a new login in place of the one that has ended with all others."""
        await audit_log.record(self._context, person.caller.key_id, person.name, action, account.id)
        token = await self._auth.start_complete(account, client_of(request))
        response: Response
        if not codes:
            response = guard.with_security_headers(RedirectResponse("/account?saved", status_code=303))
        else:
            renewed = await self._auth.look(token) or person
            response = await self._show(request, renewed, codes=codes)
        guard.set_cookie(response, request, token)
        return response

    async def _show(self, request: Request, person: Person, refusal: Refused | None = None, **values: Any) -> Response:
        account = await self._account(person)
        view = await self._renderer.view(request, person, "account")
        picture = spelled = ""
        if person.enrolment and not account.totp:
            secret = accounts.enrolment_secret(self._context, person.token_hash, person.enrolment)
            made = segno.make(second_factor.uri(secret, account.name), error="m", micro=False)
            svg = made.svg_inline(border=2, svgclass="code", lineclass=None, omitsize=True)
            picture, spelled = Markup(svg), second_factor.spelled(secret)  # noqa: S704 (drawn here)
        shown = {
            "needs_old": _needs_old(person, account),
            "enrolled": bool(account.totp),
            "left": await people.count_recovery_codes(self._scripts, account.id),
            "picture": picture,
            "spelled": spelled,
            "error": error_sentence(refusal.code, refusal.text, view) if refusal else "",
            "codes": None,
            "saved": False,
        }
        content = PageContent("account.html", values=shown | values)
        return self._renderer.page(view, content, status=refusal.status if refusal else 200)


def _needs_old(person: Person, account: Account) -> bool:
    return bool(account.password) and person.via != "link"
