"""The map of all keys: what each contains, which script or module writes it, when it ends.

A key's name is spelled here and nowhere else. Names that outside tools rely on (`gateway:jobs`,
`queue:session:<phone>`, `session:outbox:<id>`, `sessions:active`, `session:<id>`, `session:temp:<id>`,
`session:qr:<id>`, `session:events:<id>`, `phone:proxy:<phone>`, `proxies:all`, `proxies:available`) are public.
Proxies are keyed by id, never by URL: a URL holds a password.
Writers are named by their script, message scripts without their noun: `ack` is `ack_message.lua`.
"""

import re
from collections.abc import Callable
from typing import Final


def _one_per(pattern: str) -> Callable[[str], str]:
    """Return the function that names one key of the pattern, such as `message:<message_id>`."""
    prefix, _, _ = pattern.partition("<")
    return prefix.__add__


def _one_per_pair(pattern: str) -> Callable[[str, str], str]:
    """Return the function that names one key of a pattern with two names, such as `stats:<session_id>:<day>`."""
    return re.sub("<.*?>", "{}", pattern).format


# -- messages -----------------------------------------------------------------------------------------------------

GATEWAY_JOBS: Final = "gateway:jobs"
"""list of message ids, oldest first · admit pushes, route and cancel remove · never expires, usually empty"""

GATEWAY_WAITING: Final = "gateway:unrouted"
"""hash phone → how many of its messages in `gateway:jobs` are due now · admit, route, cancel · a field ends at 0"""

STRANGE_JOBS: Final = "gateway:jobs:set-aside"
"""list of entries of `gateway:jobs` that are not messages, the latest 1,000 · set_aside_job · for inspection"""

SEQUENCE: Final = "messages:sequence"
"""counter; the order of acceptance · admit, promote, retry · for ever"""

COUNTS: Final = "messages:counts"
"""hash status → how many messages have it, and `accepted` → all of them · every message script · for ever"""

SCHEDULED: Final = "messages:scheduled"
"""zset id by due instant; accepted, but not due yet · route adds, promote and cancel remove"""

EXPIRING: Final = "messages:expiring"
"""zset id by expiry instant · admit adds, every end removes"""

LEASES: Final = "messages:leases"
"""zset id by lease end · release, claim, renew_claim, shorten_leases set; ack, nack, reclaim, cancel, register_worker
remove"""

DEAD: Final = "messages:dead"
"""zset id by the instant it failed · nack and reclaim add, retry and ack remove · trimmed by retention"""

UNCONFIRMED: Final = "messages:unconfirmed"
"""zset recipient, who may have a message that WhatsApp never confirmed, by when it was given up · a day long"""

ENDED: Final = "messages:ended"
"""zset id by the instant it ended, for archive and retention · every end adds, remove_archived and erase remove"""

BODIES_ERASED: Final = "messages:bodies-erased"
"""string: the texts of messages that ended up to this instant are erased · retention · for ever"""

DUE: Final = "dispatch:due"
"""zset phone by the instant it is due next · wake, take_due_items, settle_due_item"""

DUE_MARK: Final = "dispatch:mark"
"""counter that makes each take from `dispatch:due` unique · take_due_items · for ever"""

DISPATCHER_BEAT: Final = "dispatch:beat"
"""string: some dispatcher works · dispatchers, about once a second · 10 seconds"""

WAKE: Final = "dispatch:wake"
"""channel: something in `dispatch:due` became earlier"""

OUTBOX_SIGNAL: Final = "outbox:bell"
"""channel: the session id whose outbox got a message or a command"""

TAG_LIMITS: Final = "limits:tags"
"""hash tag → JSON {tag, limits, raises}; a session has a copy of those of its tags · set_tag_limits · until reset"""

HOLDS: Final = "holds"
"""hash `all` | `session:<id>` | `group:<label>` | `phone:<n>` (ban signals) → JSON {until_ms, why, by}, and
{sessions, labels} where its author reaches only those · place_hold, lift_hold, remove_session · until lifted or over"""

OPT_OUTS: Final = "optouts"
"""hash recipient, or `<phone> <recipient>` where it holds for one phone of ours → JSON {at_ms, word, via} · opt-out API
and incoming stop words · until deleted"""

ALL_MESSAGES: Final = "messages:index"
"""zset id by acceptance · route adds, erase removes"""

STATUSES: Final = "messages:statuses"
"""zset, ordered by member: `<session>:<status> <accepted at> <id>` and `:<status> …` · every message script, erase"""

STATUSES_INDEXED: Final = "messages:statuses:indexed"
"""string: messages of earlier versions accepted from this instant on are in `messages:statuses`; 0 = all · backfill"""

ARCHIVE: Final = "messages:archive"
"""string: the identity of the archive that messages move to; another one is not written · archiver · for ever"""

ARCHIVE_FAILING: Final = "messages:archive_failing"
"""string `<ms> <code>`: since when nothing can be moved to the archive, and why · archiver · while that lasts"""

REWRITTEN: Final = "messages:rewritten"
"""string: ms when the AOF was last rewritten so that what was erased leaves the disk · archiver · for ever"""

message: Final = _one_per("message:<message_id>")
"""hash, one message (`records.Message`) · every message script · removed by remove_archived, or by erase"""

timeline: Final = _one_per("message:story:<message_id>")
"""list of `<ms> <status> <note>`, the message's timeline, at most 60 · every message script · with the message"""

queue: Final = _one_per("queue:session:<phone>")
"""zset of waiting message ids, by (priority, sequence) · route, release, nack, reclaim, cancel"""

set_aside: Final = _one_per("queue:aside:<phone>")
"""zset of messages to new contacts during a reach-out lock, with their place in the queue · release, restore"""

later: Final = _one_per("queue:later:<phone>")
"""zset of messages of a phone that are not due yet, by due instant · admit, route; promote, cancel remove"""

outbox: Final = _one_per("session:outbox:<session_id>")
"""list of at most one released message id · release pushes, claim pops, reclaim and cancel remove"""

pace: Final = _one_per("phone:pace:<phone>")
"""hash in_flight, silent_until, silence_ms, lock_until, lock_said(_by), cap_until, cap_said(_by), burst_until,
service_ms, strangers (written to in a row), counted_since · message scripts, locks"""

sent: Final = _one_per("phone:sent:<phone>")
"""zset `<id>#<release>` by the latest instant it may have reached WhatsApp, 48 h · release, ack, nack, reclaim"""

submitted: Final = _one_per("phone:submitted:<phone>")
"""zset of message ids by acceptance, the last minute only, for burst detection · route · ends by itself"""

contacts: Final = _one_per("phone:contacts:<phone>")
"""set of recipients this phone has an open chat with · receipts and incoming messages · with the phone"""

unanswered: Final = _one_per("phone:unanswered:<phone>")
"""zset of recipients who never wrote, by when this phone first wrote to them, the latest 10,000 · ack adds, receive and
erasure remove · with the phone"""

answered: Final = _one_per("phone:answered:<phone>")
"""zset of recipients who wrote after this phone had written to them first, by when it had, 28 days · receive · with the
phone"""

POOR_HEALTH: Final = "phones:poor_health"
"""hash phone → JSON of the signals that are poor · number health watch · while they are"""

affinity: Final = _one_per("contact:session:<recipient>")
"""string: the session that has the conversation with this recipient; `<api_key_id>:<recipient>` for a key that reaches
some sessions only, which must not decide for others · admit, receive, reroute · 90 days after the last message"""

messages_of_session: Final = _one_per("messages:session:<session_id>")
"""zset id by acceptance · route · trimmed by erase"""

messages_to: Final = _one_per("messages:to:<recipient>")
"""zset id by acceptance · route · trimmed by erase"""

messages_with_reference: Final = _one_per("messages:reference:<reference>")
"""zset id by acceptance · route · trimmed by erase"""

messages_of_batch: Final = _one_per("messages:batch:<batch_id>")
"""zset id by acceptance · route · trimmed by erase"""

stats: Final = _one_per_pair("stats:<session_id>:<day>")
"""hash sent, delivered, read, failed, refused → count · ack, nack, reclaim · 400 days"""

day_stats: Final = _one_per("messages:stats:<day>")
"""hash failed, unknown → count of messages that found no session to send them; all:sent, all:failed, … → counts of all
sessions together; summed_at → ms at which these were last compared with the sessions' own · as stats · 400 days"""

idempotency: Final = _one_per_pair("idempotency:<api_key_id>:<key_hash>")
"""hash fingerprint, message, answer · accept, then the gateway adds its answer · 24 h"""

act_rate: Final = _one_per_pair("rate:<session_id>:<act>")
"""string: the theoretical arrival time of GCRA, for acts besides sending · spend_rate · ends by itself"""

rate: Final = _one_per("rate:<api_key_id>")
"""string: the theoretical arrival time of GCRA · spend_rate · ends by itself"""

CALL_REPLIES_CURSOR: Final = "call_replies:cursor"
"""string: the entry of `events` up to which rejected calls are answered · call replies · for ever"""

# -- campaigns ----------------------------------------------------------------------------------------------------

CAMPAIGNS: Final = "campaigns"
"""zset of campaign ids by when they were made · create_campaign, remove · until erased"""

CAMPAIGNS_ACTIVE: Final = "campaigns:active"
"""set of ids of campaigns that were started and are watched: receipts and answers come for days · change_campaign"""

CAMPAIGNS_CURSOR: Final = "campaigns:cursor"
"""string: the entry of `events` up to which answers and opt-outs are noted · campaign feeder · for ever"""

campaign: Final = _one_per("campaign:<campaign_id>")
"""hash, one campaign (`campaigns.Campaign`) · create_campaign, change_campaign · as long after its end
as a message"""

campaign_rows: Final = _one_per("campaign:rows:<campaign_id>")
"""hash row → JSON [line, recipient, values of the fields] · staged, then create_campaign · with the campaign"""

campaign_phones: Final = _one_per("campaign:phones:<campaign_id>")
"""hash recipient → row · staged, then create_campaign · with the campaign"""

campaign_waiting: Final = _one_per("campaign:waiting:<campaign_id>")
"""zset of rows that are still to come · staged; record_campaign_row removes, return_campaign_row adds"""

campaign_outcomes: Final = _one_per("campaign:outcomes:<campaign_id>")
"""hash row → `<status> <message_id> <session_id> <ms>` · record_, settle_, return_campaign_row · with the campaign"""

campaign_counts: Final = _one_per("campaign:counts:<campaign_id>")
"""hash status → how many rows have it · record_, settle_, return_campaign_row · with the campaign"""

campaign_queued: Final = _one_per("campaign:queued:<campaign_id>")
"""set of rows whose message waits or is being sent · record_, settle_, return_campaign_row"""

campaign_open: Final = _one_per("campaign:open:<campaign_id>")
"""set of rows whose message has left and may still be delivered, read or retried · settle_campaign_row"""

campaign_attempts: Final = _one_per("campaign:attempts:<campaign_id>")
"""hash row → how often its message was taken back by a pause · return_campaign_row · with the campaign"""

campaign_answered: Final = _one_per("campaign:answered:<campaign_id>")
"""set of rows whose recipient wrote since · campaign feeder · with the campaign"""

campaign_stopped: Final = _one_per("campaign:stopped:<campaign_id>")
"""set of rows whose recipient opted out since · campaign feeder · with the campaign"""

# -- sessions -----------------------------------------------------------------------------------------------------

SESSIONS_ALL: Final = "sessions:all"
"""set of session ids that exist · create_session, remove"""

SESSIONS_ACTIVE: Final = "sessions:active"
"""set of session ids that are connected · advance_session, bind_phone"""

SESSIONS_CHANGED: Final = "sessions:changed"
"""zset of session ids whose records changed without an event, by instant · update_session, change_session · a minute"""

SESSION_NUMBER: Final = "sessions:number"
"""counter behind `worker_<n>` · provision"""

EPOCH_FLOOR: Final = "sessions:epoch_floor"
"""string: the highest epoch of any removed session; new ones begin there, so that no id's epoch goes back · remove"""

PROVISIONING: Final = "sessions:provisioning"
"""list of session ids that wait to be started and linked · provision, start_queue"""

RESTARTING: Final = "sessions:restarting"
"""list of linked session ids whose worker waits to be started · worker pool, start_queue"""

session: Final = _one_per("session:<session_id>")
"""hash, one session (`records.Session`) · create, register_worker, advance, bind_phone, move · until removed"""

temporary_binding: Final = _one_per("session:temp:<session_id>")
"""string: the proxy a session uses before its phone is known · create_session; bind_phone deletes"""

last_proxy: Final = _one_per("session:proxy:<session_id>")
"""string: the proxy a deleted session had; a new one of this id gets it · remove_session · outlives the session"""

qr: Final = _one_per("session:qr:<session_id>")
"""string: JSON {qr | code, expires_at_ms} · event intake · expires with the code"""

scan_link: Final = _one_per("session:scan-link:<session_id>")
"""hash, the one-time link of a session (`scan_links.ScanLink`) · scan links, start_scan_link · ends with the link"""

session_events: Final = _one_per("session:events:<session_id>")
"""stream, the session's history, about 500 entries · advance and every session script · with the session"""

credentials: Final = _one_per("session:credentials:<session_id>")
"""list `<epoch> <number>` of the copy, the sealed copy, the sealed changes after it · put_credentials_copy,
add_credentials_change; remove · with CREDENTIALS=server, until the credentials are discarded"""

commands: Final = _one_per("session:commands:<session_id>")
"""list of JSON commands for the worker (logout, pairing code, media) · commands push, claim pops · 2 min"""

sessions_of_phone: Final = _one_per("phone:sessions:<phone>")
"""set of session ids linked to (or provisioned for) this phone · create_session, bind_phone, remove"""

EVENTS: Final = "events"
"""stream of everything that happened, about the last 100,000; the archive has all · every script that changes
a state"""

# -- proxies ------------------------------------------------------------------------------------------------------

PROXIES_ALL: Final = "proxies:all"
"""set of proxy ids · add_proxy, remove_proxy"""

PROXIES_AVAILABLE: Final = "proxies:available"
"""set of ids of proxies whose status is OK · mark_proxy"""

PROXY_ALIASES: Final = "proxies:aliases"
"""hash id that a proxy's URL would give → the id it has; a changed password keeps the id · change_proxy · for ever"""

PROXY_OUTAGE: Final = "proxies:outage"
"""hash began_at, failing, healthy: our own connection is down · begin_outage, end_outage · while it lasts"""

LOW_INVENTORY: Final = "proxies:low_inventory"
"""string since when few slots are free · report_inventory · while that lasts"""

PROFILES: Final = "profiles"
"""hash profile → when it was added, beside those of DEVICE_PROFILES · inventory API · until removed"""

LOW_PROFILES: Final = "profiles:low_inventory"
"""string since when few profiles are free · report_inventory · while that lasts"""

proxy: Final = _one_per("proxy:<proxy_id>")
"""hash url (secret), masked, status, strikes, checks … · add_proxy, mark_proxy · until removed"""

sessions_of_proxy: Final = _one_per("proxy:sessions:<proxy_id>")
"""set of session ids that hold a slot; its size is the load · create, move, bind_phone, release_slot, remove"""

sticky: Final = _one_per("phone:proxy:<phone>")
"""string: the sticky proxy of this phone · bind_phone, move_session · outlives the session"""

sticky_history: Final = _one_per("phone:proxy:history:<phone>")
"""stream of changes of the sticky proxy, each with its reason · bind_phone, move_session · about 100 entries"""

# -- leases for singletons ----------------------------------------------------------------------------------------

lease: Final = _one_per("lease:<name>")
"""string `<owner> <fencing number>` · acquire_lease, release_lease · expires by itself"""
leader_presence: Final = _one_per("control:presence:<owner>")
"""channel on which a process listens that may lead: nothing is published, who listens lives"""

fence: Final = _one_per("fence:<name>")
"""counter of fencing numbers of a lease · acquire_lease · for ever"""

REPLICATION_BARRIER: Final = "replication:barrier"
"""channel to which the Redis line publishes before it waits for replicas; nobody listens"""

# -- API keys and audit -----------------------------------------------------------------------------

API_KEYS: Final = "api:keys"
"""hash key id → JSON {name, scopes, prefix, digest, created_at_ms, expires_at_ms, sessions, labels} · API keys · a
field ends at revocation"""

API_KEY_DIGESTS: Final = "api:keys:digests"
"""hash SHA-256 of a key → key id · API keys · a field ends at revocation"""

API_KEYS_USED: Final = "api:keys:used"
"""hash key id → ms of its last use, to the minute · API keys · a field ends at revocation"""

AUDIT: Final = "audit"
"""stream of what operators did, about 100,000 entries · audit · append-only"""

# -- the control plane ------------------------------------------------------------------------------------

INSTALLATION: Final = "installation"
"""string: ms when this Redis was first used; missing after Redis has lost its data · control_plane · for ever"""

CONTROL_PULSE: Final = "control:pulse"
"""string: the instant at which a leader was last active · leader_lease · shows how long there was none"""

CONTROL_ATTEND: Final = "control:attend"
"""list of session ids that the leader should check now · API, intake push; the leader pops"""

CONTROL_NODES: Final = "control:nodes"
"""string: JSON list of the engine's nodes, as the leader last saw them · node_watch · 1 minute"""

CONTROL_DRAINED: Final = "control:drained"
"""set of the names of nodes that an operator drains · API · until activated"""

SESSIONS_WAITING: Final = "sessions:waiting"
"""set of session ids that wait for a slot on a proxy · move_session adds and removes"""

STARTED_LAST: Final = "sessions:started_last"
"""string: when a session to be linked was last started; a restart of the server keeps the pace · start_queue"""

RESTART_AFTER: Final = "sessions:restart_after"
"""string: the instant before which no other linked session is restarted · start_queue"""

ALERT_CURSOR: Final = "alerts:cursor"
"""string: the last entry of `events` that alerts were made of · alerts · for ever"""

TROUBLES: Final = "troubles"
"""hash `queue:<phone>`, `webhook:<id>`, `disk:<directory>`, … → JSON {type, at, fields}: troubles that people were told
of · the leader · while they last"""

job_runs: Final = _one_per("jobs:runs:<job>")
"""list of JSON, the latest runs of a job, the newest first · the leader · the last 12"""

JOBS_NEXT: Final = "jobs:next"
"""hash job → when it goes on · the leader"""

JOBS_ASKED: Final = "jobs:asked"
"""hash job → who asked for a run by hand · API sets, the leader deletes"""

SUMMARY_DAY: Final = "summary:day"
"""string: the local day of the last daily summary · the leader · for ever"""

restarts: Final = _one_per("session:restarts:<session_id>")
"""zset of instants at which the server restarted this session's worker by itself · watchdog · 15 minutes"""

heard: Final = _one_per_pair("session:heard:<session_id>:<webhook_id>")
"""string: digest of an event that was taken in under this id · event intake · longer than a signature is valid"""

# -- contacts, webhooks ----------------------------------------------------

lid_of: Final = _one_per("contact:lid:<phone>")
"""string: the LID by which WhatsApp also names this contact · receive · 400 days after it was last seen"""

phone_of: Final = _one_per("contact:phone:<lid>")
"""string: the phone behind a LID, as a worker reported it · receive · 400 days after it was last seen"""

username: Final = _one_per_pair("contact:username:<phone>:<name>")
"""string: the LID of a username, as a worker of this phone of ours looked it up · accept · a day"""

incoming: Final = _one_per_pair("message:incoming:<session_id>:<whatsapp_id>")
"""hash, one incoming message with its text · receive · ends with the retention of bodies"""

conversation: Final = _one_per_pair("conversation:<session_id>:<contact>")
"""hash, one conversation (`conversation_records.StoredConversation`), the contact as phone, `lid:…` or group; a field
`draft <who>` is what a person has begun to write; the session is the one of the account that had it first ·
receive, route, change_conversation, attend_conversation, move_conversation · ends with the retention of messages, or
the erasure of the contact"""

presence: Final = _one_per_pair("presence:<session_id>:<contact>")
"""hash of people who have a conversation open → when they last said so, what they do, their name ·
attend_conversation · a minute"""

thread: Final = _one_per_pair("thread:<session_id>:<contact>")
"""zset of incoming messages of a conversation that are in Redis, our ids by when they came · receive adds, the archiver
removes · ends with the retention of bodies"""

notices: Final = _one_per_pair("notices:<phone>:<contact>")
"""zset of what a conversation has besides messages (`thread_notices.Notice` as JSON) by instant, the latest 100 ·
report_call, report_undecryptable · as long as incoming messages, or until the erasure of the contact"""

CONVERSATION_INDEX: Final = "conversations:index"
"""zset, ordered by member: `<session>:<state> <order> <session> <contact>` and `:<state> …` · receive, route,
change_conversation, index_conversation, move_conversation, remove_conversation"""

CONVERSATION_ACTIVITY: Final = "conversations:activity"
"""zset `<session> <contact>` by the last message, for retention · receive, route, move_conversation,
remove_conversation"""

CONVERSATION_NAMES: Final = "conversations:names"
"""zset, ordered by member: `<contact> <session> <name without case>`, for lists and search · receive,
move_conversation, remove_conversation"""

changes_of: Final = _one_per_pair("message:changes:<session_id>:<whatsapp_id>")
"""zset of incoming reactions, votes, edits and deletions of a message, our ids by when they came, the latest 200 ·
receive, the archiver removes · ends with the retention of bodies"""

QUICK_REPLIES: Final = "conversations:quick-replies"
"""hash name → text of an answer that people insert · quick reply API · until deleted"""

DRIFT: Final = "drift:shapes"
"""zset of unknown protocol shapes by when they were last seen · record_drift · 30 days after that"""

drift: Final = _one_per("drift:shape:<shape>")
"""hash: first_at, last_at, count of one shape · record_drift · 30 days after it was last seen"""

drift_sessions: Final = _one_per("drift:sessions:<shape>")
"""set of the sessions that met a shape · record_drift · 30 days after it was last seen"""

passkey: Final = _one_per("session:passkey:<session_id>")
"""string: JSON of a linking by passkey, with WhatsApp's request · worker reports · 15 minutes"""

passkey_used: Final = _one_per_pair("session:passkey_used:<session_id>:<digest>")
"""string: a request of WhatsApp for a passkey was answered · passkey API · 15 minutes"""

CLIENT_VERSION: Final = "whatsapp:client_version"
"""hash: last accepted login, newest accepted revision, last trial, an announced end · record_login · for ever"""

MEDIA_DUE: Final = "media:due"
"""zset of ids of incoming messages whose file is to be fetched, by the instant of the next attempt, the latest 10,000 ·
receive, take_due_items, settle_due_item"""

MEDIA_MARK: Final = "media:mark"
"""counter that makes each take from `media:due` unique · take_due_items · for ever"""

undecryptable: Final = _one_per_pair("message:undecryptable:<phone>:<whatsapp_id>")
"""string: why an incoming message could not be read · report_undecryptable · as long as an incoming message"""

first_report: Final = _one_per_pair("message:reported:<phone>:<whatsapp_id>")
"""string: the session that reported an incoming message first, for a phone with several · receive · as long as an
incoming message"""

call_reported: Final = _one_per_pair("call:reported:<phone>:<call>")
"""string: that this was reported of a call · report_call · 1 day"""

command_question: Final = _one_per("command:asked:<command_id>")
"""string `<how> <session_id>`: whose worker may answer a command, once · commands, put_command_result · as long as
somebody waits"""

INCOMING: Final = "messages:incoming"
"""zset `<session> <WhatsApp id>` of incoming messages by when they came · receive adds, the archiver removes"""

ERASURES: Final = "contacts:erasures"
"""hash phone of a person to be erased → `<ms of the first pass> <lid>`, 0 before it · erasure API, archiver ·
until done"""

command_result: Final = _one_per("command:result:<command_id>")
"""list of at most one JSON answer of a worker to a command · put_command_result, the asker pops · 10 s"""

WEBHOOKS: Final = "webhooks"
"""hash id → JSON {url, types, secret, created_at_ms} · webhook API · until deleted"""

WEBHOOK_CURSOR: Final = "webhooks:cursor"
"""string: the entry of `events` up to which deliveries have been made · queue_deliveries · for ever"""

WEBHOOK_DUE: Final = "webhooks:due"
"""zset `<webhook>/<event>` by the instant of its next attempt · queue_deliveries, take_due_items,
settle_delivery, replay"""

WEBHOOK_MARK: Final = "webhooks:mark"
"""counter that makes each take from `webhooks:due` unique · take_due_items · for ever"""

webhook_state: Final = _one_per("webhook:state:<webhook_id>")
"""hash `failing_since`, `disabled_at`, `why` · settle_delivery, webhook API · with the webhook"""

delivery: Final = _one_per_pair("webhook:delivery:<webhook_id>/<event>")
"""hash, one delivery: type, body, status, attempts, note · queue_deliveries, settle_delivery · with the log"""

delivery_log: Final = _one_per("webhook:log:<webhook_id>")
"""zset of events by the instant they were queued: all that wait and about 1,000 that ended · queue_deliveries"""

# -- the dashboard ------------------------------------------------------------------------------------------------

person: Final = _one_per("dashboard:person:<token_hash>")
"""hash, one login (`logins.Login`) · login · ends when idle too long, at logout, by age, with its account"""

LOGINS: Final = "dashboard:logins"
"""set of token hashes of logins, also of ended ones until they are listed · login · for ever"""

login_tries: Final = _one_per("dashboard:tries:<who>")
"""counter of wrong passwords under a name or from an address · login · 15 minutes after the first"""

login_link: Final = _one_per("dashboard:link:<token_hash>")
"""string: the role, or `person:<id>`, that a one-time link opens · login; its first use deletes it · a day at most"""

PEOPLE: Final = "dashboard:people"
"""hash account id → JSON (`people.Account`) · accounts · a field ends with its account"""

recovery_codes: Final = _one_per("dashboard:recovery:<account_id>")
"""set of SHA-256 of unused recovery codes · accounts; a login removes the one it used · with the account"""

used_code: Final = _one_per_pair("dashboard:code:<account_id>:<step>")
"""string: a code of the second factor was used · login · three minutes"""

code_tries: Final = _one_per("dashboard:code_tries:<who>")
"""counter of wrong codes for an account, or for one from an address it knows · admit_code · a day after the first"""

code_pause: Final = _one_per("dashboard:code_pause:<who>")
"""string: no code is admitted · admit_code · expires by itself"""

known_addresses: Final = _one_per("dashboard:addresses:<account_id>")
"""zset of addresses that have completed a login of the account → ms · login · 90 days after the last"""

DASHBOARD_CURSOR: Final = "dashboard:cursor"
"""string: the entry of `events` up to which the hours are counted · dashboard · for ever"""

DASHBOARD_HOURS: Final = "dashboard:hours"
"""hash `<hour since 1970>:<status>` → how many messages got that status within it · dashboard · 48 hours"""

EVENT_COUNTS: Final = "metrics:events"
"""hash `<type>` or `<type> <note>` → how many such events there were · with `dashboard:cursor` · for ever"""

DURATION_COUNTS: Final = "metrics:durations"
"""hash `<step> <bucket>` → how many messages took that long, and `<step> sum_ms` · dashboard · for ever"""

DASHBOARD_QUEUE: Final = "dashboard:queue"
"""list of `<ms>:<messages that wait>`, one a minute, the last day · dashboard · for ever"""

proxy_health: Final = _one_per("proxy:health:<proxy_id>")
"""list of `<ms>:<latency or -1>`, the last 120 checks of a proxy · dashboard · a week after the last one"""

alerts: Final = _one_per("alerts:outgoing:<sink>")
"""list of JSON alerts that wait for one receiver (`telegram`, `webhook`), at most 1,000 · alerts push and pop"""

# -- backups ------------------------------------------------------------------------------------------------------

BACKUP_REQUESTS: Final = "backups:requests"
"""list of at most one name: who asked for a backup now · backup API pushes, the leader pops"""

BACKUP_RUN: Final = "backups:run"
"""hash kind, id, phase, done, total, session, by, began_at: the backup or restore that runs · the leader · while it
runs; what a killed server left expires"""

BACKUP_RUNS: Final = "backups:runs"
"""list of JSON: the latest 20 backups and restores that ended, failed ones too · the leader · for ever"""

BACKUP_DAY: Final = "backups:day"
"""string: the local day of the last scheduled backup · the leader · for ever"""

BACKUP_UNCOPIED: Final = "backups:uncopied"
"""string: the newest backup, if its second copy could not be made · the leader · until one could"""

BACKUP_RETRY: Final = "backups:retry"
"""string: a scheduled backup failed; the next attempt is made when this expires · the leader · an hour"""

RESTORE_STAGE: Final = "backups:restore"
"""hash id, stage (loaded, ended), messages: how far the latest restore is, should its server die · restore · until the
next one"""

RESTORE_LOADED: Final = "backups:loading"
"""string: the restore that fills this Redis · restore · until it is complete"""

#: Keys by their beginning that no backup holds: they end by themselves, or belong to this machine and its processes.
NOT_BACKED_UP: Final = (
    "backups:", "jobs:", "lease:", "fence:", "control:", "command:result:", "rate:", "dashboard:person:",
    DISPATCHER_BEAT,
    "dashboard:tries:", "dashboard:link:", "session:qr:", "session:scan-link:", "presence:",
    "session:commands:", "session:credentials:", "session:heard:", "session:restarts:",
    PROVISIONING, RESTARTING, STARTED_LAST, RESTART_AFTER, SESSIONS_ACTIVE, SESSIONS_CHANGED, INSTALLATION, SUMMARY_DAY,
    ARCHIVE, ARCHIVE_FAILING, REWRITTEN, TROUBLES, POOR_HEALTH,
)  # fmt: skip
#: Keys that are many and change no more, or only grow: a backup reads them after the others, without blocking Redis.
HISTORY: Final = (
    "message:",
    "conversation:",
    "thread:",
    "notices:",
    "webhook:delivery:",
    "idempotency:",
    "stats:",
    "messages:stats:",
)
#: Where messages wait or are under way: these messages are read together with the queues.
OPEN_MESSAGES: Final = (GATEWAY_JOBS, SCHEDULED, LEASES, "queue:", "session:outbox:")
#: What sets something in motion: a restore writes it last.
MOVING: Final = (SESSIONS_ALL, GATEWAY_JOBS, SCHEDULED, DUE, WEBHOOK_DUE, LEASES)
#: What a restore adds to and does not replace: settings and operators have written to it before.
SHARED: Final = (PROXIES_ALL, PROXIES_AVAILABLE, API_KEYS, API_KEY_DIGESTS, OPT_OUTS)
