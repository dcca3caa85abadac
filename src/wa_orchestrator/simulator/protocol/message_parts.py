"""What a phone shows of a message besides its kind and text: the quote, mentions, cards, options, targets, previews."""

from typing import Any, Final

from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields, decode

TEXT, CARD, CARDS, PROTOCOL, REACTION, IMAGE, VIDEO, AUDIO, STICKER = 6, 4, 13, 12, 46, 3, 9, 8, 26
POLLS: Final = (49, 60, 64, 111)
#: The field of the context in kinds where it is not 17.
_CONTEXTS: Final = {49: 5, 60: 5, 64: 5, 111: 5}
#: Fields of files: height, width, seconds, thumbnail.
_SIZES: Final = {
    IMAGE: (6, 7, None, 16),
    VIDEO: (9, 10, 5, 16),
    AUDIO: (None, None, 5, None),
    STICKER: (6, 7, None, None),
}
#: Kinds that may be replies and have mentions: text, files, location, cards, polls.
_WITH_CONTEXT: Final = frozenset({TEXT, IMAGE, VIDEO, AUDIO, STICKER, 7, 5, CARD, CARDS, *POLLS})
_AUDIO_IS_VOICE, _AUDIO_WAVEFORM = 6, 19
_EDITED_MESSAGE = 14


def read(message: ProtobufFields) -> dict[str, Any]:
    """Return the parts of an unwrapped message that are there."""
    return {
        **_context(message),
        **_cards(message),
        **_poll(message),
        **_target(message),
        **_file(message),
        **_preview(message),
    }


def _context(message: ProtobufFields) -> dict[str, Any]:
    for number in message:
        field = _CONTEXTS.get(number, 17)
        if number not in _WITH_CONTEXT or field not in (body := message.message(number)):
            continue
        context, parts = body.message(field), dict[str, Any]()
        if 1 in context:
            quoted = context.message(3)
            text = quoted.text(1) or (quoted.message(TEXT).text(1) if TEXT in quoted else "")
            parts["quote"] = {"id": context.text(1), "author": context.text(2), "text": text}
            if 4 in context:
                parts["quote"]["chat"] = context.text(4)
        if 15 in context:
            parts["mentions"] = [each.decode() for each in context.all(15)]
        return parts
    return {}


def _preview(message: ProtobufFields) -> dict[str, Any]:
    body = message.message(TEXT) if TEXT in message else None
    if body is None or 2 not in body:
        return {}
    shown = {"url": body.text(2), "title": body.text(6), "description": body.text(5)}
    return {"preview": {**shown, "thumbnail": bool(body.raw(16))}}


def _cards(message: ProtobufFields) -> dict[str, Any]:
    if CARD in message:
        cards = [message.message(CARD)]
    else:
        cards = [decode(each) for each in message.message(CARDS).all(2)] if CARDS in message else []
    return {"cards": [{"name": each.text(1), "vcard": each.text(16)} for each in cards]} if cards else {}


def _poll(message: ProtobufFields) -> dict[str, Any]:
    number = poll_field(message)
    if number is None:
        return {}
    poll = message.message(number)
    return {"options": [decode(each).text(1) for each in poll.all(3)], "selectable": poll.number(4)}


def poll_field(message: ProtobufFields) -> int | None:
    """Return the field that is a poll, or None."""
    return next((number for number in POLLS if number in message), None)


def _target(message: ProtobufFields) -> dict[str, Any]:
    number = next((number for number in (REACTION, PROTOCOL) if number in message), None)
    key = message.message(number).message(1) if number is not None and 1 in message.message(number) else None
    if key is None:
        return {}
    return {"target": {"id": key.text(3), "own": bool(key.number(2)), "author": key.text(4)}}


def edited(message: ProtobufFields) -> ProtobufFields | None:
    """Return the content that an edit puts in place of the first; None where it is no edit."""
    body = message.message(PROTOCOL) if PROTOCOL in message else None
    return body.message(_EDITED_MESSAGE) if body is not None and _EDITED_MESSAGE in body else None


def _file(message: ProtobufFields) -> dict[str, Any]:
    number = next((number for number in _SIZES if number in message), None)
    if number is None:
        return {}
    body, (height, width, seconds, thumbnail) = message.message(number), _SIZES[number]
    found: dict[str, Any] = {}
    for name, field in (("height", height), ("width", width), ("seconds", seconds)):
        if field is not None and body.number(field):
            found[name] = body.number(field)
    if thumbnail is not None and body.raw(thumbnail):
        found["thumbnail"] = len(body.raw(thumbnail))
    if number == AUDIO and body.number(_AUDIO_IS_VOICE):
        found |= {"voice": True, "waveform": len(body.raw(_AUDIO_WAVEFORM))}
    return found
