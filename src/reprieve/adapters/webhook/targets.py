"""Where a webhook may go: a URL in its one normal form, and addresses that are everybody's."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import quote, urlsplit

import idna

from reprieve.errors import UsageError

Address = IPv4Address | IPv6Address

_LONGEST: Final = 2000
_LONGEST_HOST: Final = 253
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_UNSEEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\\ud800-\udfff]")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_IN_PATH: Final = "/%:@!$&'()*+,;=~"

_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NOT_EVERYBODYS_6: Final = (IPv6Network("2002::/16"), IPv6Network("2001::/23"), IPv6Network("3fff::/20"))
"""6to4, protocol assignments (Teredo among them) and documentation; the Pythons differ about them."""
_NOT_EVERYBODYS_4: Final = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))
"""Protocol assignments, where a cloud has its metadata, and relays of 6to4; the same."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_METADATA: Final = frozenset({IPv4Address("168.63.129.16")})
"""A cloud's own service at a public address; the others' are link-local or private."""


def normal_url(url: str, *, allow_private: bool) -> str:
    """The URL in its one normal form; refused where it is none, or not safe. The words of a refusal hold none of it."""
    if len(url) > _LONGEST or _UNSEEN.search(url):
        raise UsageError(f"a webhook's address is a URL of at most {_LONGEST} visible characters")
    try:
        parts = urlsplit(url)
        port, name = parts.port, parts.hostname
    except ValueError:
        raise UsageError("a webhook's address is no URL: its host or its port cannot be read") from None
    if parts.scheme not in _DEFAULT_PORTS or not name:
        raise UsageError("a webhook's address is a URL such as https://example.org/hook")
    if parts.scheme == "http" and not allow_private:
        raise UsageError("a webhook's address begins with https:// (http:// needs allow_private=True)")
    if "@" in parts.netloc:
        raise UsageError("a webhook's address holds no user or password: give credentials as headers=")
    host = _normal_host(name, allow_private=allow_private)
    where = host if port in {None, _DEFAULT_PORTS[parts.scheme]} else f"{host}:{port}"
    query = f"?{quote(parts.query, safe=_IN_PATH + '?')}" if parts.query else ""
    return f"{parts.scheme}://{where}{quote(parts.path or '/', safe=_IN_PATH)}{query}"


def origin_of(url: str) -> str:
    """Scheme, host and port: what may be shown of a URL, whose path may be a credential."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _normal_host(name: str, *, allow_private: bool) -> str:
    host = (name if name.isascii() else _ascii(name)).removesuffix(".")
    labels = host.split(".")
    if ":" in host or _NUMBER.fullmatch(labels[-1]):
        # What ends in a number is an address to every resolver, however it is spelt (127.1, 0x7f.0.0.1).
        return _normal_address(host, allow_private=allow_private)
    if len(host) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise UsageError("a webhook's address has a host that is no name")
    return host


def _ascii(name: str) -> str:
    """The name as resolvers know it; full stops and digits of other scripts become ours, so numbers are looked for after."""
    try:
        return idna.encode(name, uts46=True).decode()
    except idna.IDNAError:
        raise UsageError("a webhook's address has a host that is no name") from None


def _normal_address(host: str, *, allow_private: bool) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        raise UsageError("a webhook's address has a number for a host that is no IP address") from None
    if getattr(address, "scope_id", None) is not None:
        raise UsageError("a webhook's address names a network interface")
    if not (allow_private or is_public(address)):
        raise UsageError(not_public(str(address)))
    return f"[{address}]" if isinstance(address, IPv6Address) else str(address)


def is_public(address: Address) -> bool:
    """Whether an address is everybody's: not private, loopback, link-local, multicast, a tunnel's or a cloud's own."""
    if isinstance(address, IPv4Address):
        odd = address.is_multicast or address.is_reserved or address in _METADATA
        return address.is_global and not odd and not any(address in each for each in _NOT_EVERYBODYS_4)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _GLOBAL_UNICAST and address.is_global and not any(address in each for each in _NOT_EVERYBODYS_6)


def not_public(where: str) -> str:
    """The refusal of an address, in words."""
    return f"a webhook to {where}, which is not a public address, is refused; allow_private=True allows such"
