"""Every ability of the API is a command, or somebody decided that it is none."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from wa_orchestrator.cli.main import app

OPERATIONS = Path(__file__).parents[1] / "web" / "operations.txt"
COMMANDS = {
    "exportAuditFile": "export", "exportMessages": "export", "exportOptOuts": "export", "exportSessions": "export",
    "importAccount": "import", "importOptOuts": "opt-outs import", "importSessions": "sessions import",
    "addOptOut": "opt-outs add", "addPerson": "people add", "addProxy": "proxies add", "addWebhook": "webhooks add",
    "changeConversation": "conversations change", "deleteQuickReply": "quick-replies delete",
    "getConversation": "conversations show", "listContacts": "contacts list",
    "listConversationMessages": "conversations show", "listConversations": "conversations list",
    "listQuickReplies": "quick-replies list", "markConversationRead": "conversations read",
    "putQuickReply": "quick-replies put",
    "cancelCampaign": "campaign cancel", "createCampaign": "campaign create", "getCampaign": "campaign show",
    "listCampaigns": "campaign list", "listRecipients": "campaign recipients", "pauseCampaign": "campaign pause",
    "resumeCampaign": "campaign resume", "startCampaign": "campaign start",
    "blockPerson": "chats block", "checkNumber": "chats check", "deleteMessageForEveryone": "chats delete",
    "editMessage": "chats edit", "getProfilePicture": "chats picture", "markMessageRead": "chats read",
    "reactToMessage": "chats react", "showTyping": "chats typing",
    "answerJoinRequest": "groups answer", "changeGroup": "groups change", "createGroup": "groups create",
    "getGroup": "groups show", "getGroupLink": "groups link", "leaveGroup": "groups leave",
    "listGroups": "groups list", "listJoinRequests": "groups requests", "removeGroupMember": "groups remove",
    "renewGroupLink": "groups link",
    "cancelMessage": "messages cancel", "cancelWaiting": "queue cancel", "changePerson": "people change",
    "changeProxy": "proxies change", "changeSession": "sessions change", "changeWebhook": "webhooks change",
    "checkProxy": "proxies check", "confirmPhone": "sessions confirm-phone", "createApiKey": "keys create",
    "createBackup": "backup", "createPersonLink": "people link", "createScanLink": "sessions scan-link",
    "deleteOptOut": "opt-outs delete", "deletePerson": "people delete", "deleteSession": "sessions delete",
    "deleteWebhook": "webhooks delete", "downloadBackup": "download-backup", "emptyQueue": "queue cancel",
    "enableWebhook": "webhooks enable", "endLogin": "logins end", "eraseContact": "contacts erase",
    "exportAudit": "audit export", "exportContact": "contacts export", "getDashboardStats": "status",
    "getLimits": "limits show", "getMedia": "messages media", "getMessage": "messages show",
    "getMessageStatus": "messages show", "getProxy": "proxies list", "getQueue": "queue list",
    "getReadiness": "status", "getSession": "sessions show", "getSessionHistory": "sessions history",
    "getSessionHealth": "sessions health", "getSessionQr": "sessions qr", "getSessionStats": "stats", "getSessionStatus": "sessions show",
    "getStats": "stats", "importProxies": "proxies import", "liftHold": "holds lift", "listApiKeys": "keys list",
    "listAuditEntries": "audit list", "listBackups": "backups", "listDashboardSessions": "watch",
    "listDeliveries": "webhooks deliveries", "listEvents": "logs", "listHolds": "holds list", "listJobs": "jobs list",
    "listLogins": "logins list", "listNodes": "nodes list", "drainNode": "nodes drain", "activateNode": "nodes activate",
    "moveSession": "sessions move", "listOptOuts": "opt-outs list", "listPeople": "people list",
    "listPresets": "limits list", "listProxies": "proxies list", "listSessions": "sessions list",
    "listTrash": "trash list", "listWaiting": "queue list", "listWebhooks": "webhooks list",
    "logoutSession": "sessions logout", "placeHold": "holds place", "provisionSession": "sessions add",
    "reinstateProxy": "proxies reinstate", "removeProxy": "proxies remove",
    "removeSecondFactor": "people remove-second-factor", "replayDelivery": "webhooks replay",
    "requestPairingCode": "sessions pairing-code", "resetLimits": "limits reset", "restartSession": "sessions restart",
    "restoreBackup": "restore", "restoreCredentials": "sessions restore-credentials", "sendBatch": "send-batch",
     "restoreFromTrash": "trash restore", "retryMessage": "messages retry",
    "confirmMessage": "messages confirm", "sendMessageAgain": "messages send-again",
    "revokeApiKey": "keys revoke", "rotateWebhookSecret": "webhooks rotate-secret", "runJob": "jobs run",
    "searchMessages": "messages list", "sendMessage": "send", "sendMessageAlias": "send", "sendTestAlert": "test-alert",
    "setLimits": "limits set", "setTagLimits": "limits set-tag", "listTagLimits": "limits tags",
    "deleteTagLimits": "limits reset-tag", "getInventory": "inventory list", "addProfile": "inventory add-profile",
    "removeProfile": "inventory remove-profile", "setPresence": "sessions change", "setTimezone": "sessions change",
    "showRadar": "radar", "startSession": "sessions start", "stopSession": "sessions stop", "streamEvents": "logs",
    "uploadFile": "send", "verifyAudit": "audit verify", "withdrawScanLink": "sessions scan-link",
}  # fmt: skip
#: Operations without a command, with the reason.
NONE = {
    "answerPasskey": "a browser signs",
    "confirmPasskey": "a person compares two codes on the page",
    "getPasskeyRequest": "a browser signs",
    "getHealth": "for load balancers",
    "getThumbnail": "for pages: `messages media` saves the file itself",
    "getMetrics": "for Prometheus",
    "getSimulator": "for the dashboard of a demonstration",
    "receiveWorkerEvent": "for workers",
    "receiveWorkerEventAlias": "for workers",
}


def _operations() -> list[str]:
    return [line.split()[2] for line in OPERATIONS.read_text("utf-8").splitlines() if line]


@cache
def _root() -> Any:
    return typer.main.get_command(app)


@pytest.mark.parametrize("operation", _operations())
def test_an_operation_of_the_api_is_a_command(operation: str) -> None:
    assert (operation in COMMANDS) != (operation in NONE), "name its command, or the reason why it has none"
    if operation in COMMANDS:
        found = _root()
        for word in COMMANDS[operation].split():
            found = found.commands[word]


def test_no_operation_is_named_that_does_not_exist() -> None:
    assert not (COMMANDS.keys() | NONE.keys()) - set(_operations())
