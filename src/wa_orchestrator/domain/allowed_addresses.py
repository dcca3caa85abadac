"""Which addresses the URLs of customers may lead to: media, webhooks, link previews."""

import ipaddress
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
#: Unicast addresses of the IPv6 internet; nothing else of IPv6 is routed there.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
#: IANA's registries of special-purpose addresses. Spelled out, because `is_global` differs between releases of Python.
_SPECIAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
            "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
            "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
        ),
    )
)  # fmt: skip
#: Metadata services of clouds, which return credentials, where they are not link-local.
_METADATA: Final = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "100.100.100.200", "fd00:ec2::254")))


def is_public(address: Address) -> bool:
    """Whether an address is on the internet, also when it is embedded in another one."""
    inner = _embedded(address)
    if isinstance(inner, ipaddress.IPv6Address) and inner not in _GLOBAL_UNICAST:
        return False
    return not is_forbidden(inner) and not any(inner in network for network in _SPECIAL)


def is_forbidden(address: Address) -> bool:
    """Whether an address is refused even on a trusted LAN: link-local, metadata, multicast or unspecified."""
    inner = _embedded(address)
    return inner.is_link_local or inner.is_multicast or inner.is_unspecified or inner in _METADATA


def _embedded(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address (mapped, compatible, 6to4, Teredo, NAT64), or the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if inner := address.ipv4_mapped or address.sixtofour:
        return inner
    if address.teredo is not None:
        return address.teredo[1]
    low = int(address) & 0xFFFFFFFF
    is_compatible = int(address) >> 32 == 0 and low > 0xFFFF
    return ipaddress.IPv4Address(low) if address in _NAT64 or is_compatible else address
