"""A throw-away certificate authority, so that unmodified clients connect to the simulator by WhatsApp's host names."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Names of the server certificate. No others: the authority's key must not be worth stealing.
NAMES = ("web.whatsapp.com", "*.whatsapp.com", "mmg.whatsapp.net", "*.whatsapp.net", "localhost")
ADDRESSES = ("127.0.0.1", "::1")
VALID = timedelta(days=825)  # the longest validity that every client accepts
RENEW_BEFORE = timedelta(days=30)
NOT_BEFORE_SLACK = timedelta(days=1)  # clocks of two containers may differ

_CA_CERT, _CA_KEY = "ca.pem", "ca.key"
_SERVER_CERT, _SERVER_KEY = "server.pem", "server.key"


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """The server's TLS context, and the CA file for its clients."""

    context: ssl.SSLContext
    ca_file: Path


def prepare(directory: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> TlsIdentity:
    """Load the authority and the certificate from `directory`, or create them there.

    A restart finds the same authority, so clients that trust it go on; within a month of its end all is made anew.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _usable(directory, now()):
        _issue(directory, now())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(directory / _SERVER_CERT, directory / _SERVER_KEY)
    return TlsIdentity(context, directory / _CA_CERT)


def _usable(directory: Path, now: datetime) -> bool:
    """Whether all four files exist, belong together and stay valid for a while."""
    try:
        authority = x509.load_pem_x509_certificate((directory / _CA_CERT).read_bytes())
        server = x509.load_pem_x509_certificate((directory / _SERVER_CERT).read_bytes())
        key = load_pem_private_key((directory / _SERVER_KEY).read_bytes(), password=None)
        server.verify_directly_issued_by(authority)
    except Exception:  # a missing, torn or foreign file: in any case new ones are created
        return False
    ends = min(authority.not_valid_after_utc, server.not_valid_after_utc)
    return key.public_key() == server.public_key() and now + RENEW_BEFORE < ends


def _issue(directory: Path, now: datetime) -> None:
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("Simulated WhatsApp: throw-away authority")
    authority = (
        _builder(ca_name, ca_name, ca_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(for_authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in NAMES]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
    server = (
        _builder(_name("web.whatsapp.com"), ca_name, key, now)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(for_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    write_private(directory / _CA_KEY, _pem(ca_key))
    write_private(directory / _SERVER_KEY, _pem(key))
    _write(directory / _SERVER_CERT, server.public_bytes(Encoding.PEM), mode=0o644)
    _write(directory / _CA_CERT, authority.public_bytes(Encoding.PEM), mode=0o644)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - NOT_BEFORE_SLACK)
        .not_valid_after(now - NOT_BEFORE_SLACK + VALID)
    )


def _key_usage(*, for_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not for_authority,
        key_cert_sign=for_authority,
        crl_sign=for_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, atomically."""
    _write(path, content, mode=0o600)


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """Write atomically; the file is never readable by others, not even for a moment."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    fresh.replace(path)
