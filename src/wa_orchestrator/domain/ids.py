"""The ids of the product, each a type of its own, so that mypy rejects one where another is expected."""

from typing import NewType

SessionId = NewType("SessionId", str)
MessageId = NewType("MessageId", str)
ProxyId = NewType("ProxyId", str)
#: A phone number as `phone.parse` returns it: digits only, with the country code.
Phone = NewType("Phone", str)
