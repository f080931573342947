"""Findings about certificates that expire or are refused, and about secrets that differ, are being replaced, or are
none."""

from collections.abc import Iterator

from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, broken, name, warning
from epoxy.cli.output import duration, plural
from epoxy.client.results import Status
from epoxy.transport.peers.keyring import fingerprint_of

DAY_S = 86_400.0

SOON_DAYS = 14
"""As for the node's log: time to order a certificate by hand."""

PLACEHOLDERS = (
    *(character * length for character in "0as" for length in (16, 24, 32, 64)),
    *("0123456789abcdef", "0123456789abcdef0123456789abcdef", "1234567890123456", "abcdefghijklmnop"),
    *("changemechangeme", "change-me-change-me", "change-me-please", "changethissecret", "please-change-me"),
    *("passwordpassword", "secretsecretsecret", "secretsecretsecretsecret", "supersecretsecret"),
    *("this is a secret", "this-is-a-secret", "my-secret-my-secret", "epoxy-secret-epoxy-secret"),
    *("epoxyepoxyepoxyepoxy", "replace-this-secret", "insecure-demo-secret", "not-a-secret-at-all"),
)
"""What stands in examples and in hurried files, of 16 bytes or more: a node takes none that are shorter."""

KINDS = {
    "cert": "the certificate of {}",
    "ca": "the authority of the certificate of {}",
    "client_ca": "the authority of clients' certificates at {}",
}


def certificates(statuses: list[Status]) -> Iterator[Finding]:
    """By the node's own clock, as its peers judge it by theirs."""
    for status in statuses:
        for setting, end in status.certificates.items():
            what = KINDS.get(setting, f"tls.{setting} of {{}}").format(name(status))
            days = int((end - (status.clock_s or 0.0)) // DAY_S)
            if status.clock_s is None or days >= SOON_DAYS:
                continue
            advice = f"Put a new one in the place of the file of tls.{setting}: the node reads it by itself."
            if end <= status.clock_s:
                ago = duration(status.clock_s - end)
                yield broken(FindingKind.CERTIFICATE_EXPIRED, f"{what} has expired, {ago} ago", advice)
            else:
                words = f"{what} expires in {plural(days, 'day')}"
                yield warning(FindingKind.CERTIFICATE_EXPIRES, words, advice)


def flaws(statuses: list[Status]) -> Iterator[Finding]:
    """What a node finds wrong with its own certificate, by the files it has. One that has expired has a finding."""
    for status in statuses:
        if status.certificate_flaw and "expired" not in status.certificate_flaw:
            yield broken(
                FindingKind.CERTIFICATE_FLAW,
                f"the certificate of {name(status)} is refused at {status.url}: {status.certificate_flaw}",
                "Issue one for the host in that address (as a subject alternative name), signed by the authority in "
                "tls.ca, and put it in the place of the files of tls.cert and tls.key: the node reads them by itself.",
            )


def authorities(statuses: list[Status]) -> Iterator[Finding]:
    """Nodes that trust different ones (tls.ca): as while one is replaced, or by mistake."""
    told = [status for status in statuses if status.authorities]
    if len({tuple(status.authorities) for status in told}) < 2:
        return
    said = ", ".join(f"{name(status)}: {' and '.join(status.authorities)}" for status in told)
    shared = set.intersection(*[set(status.authorities) for status in told])
    if shared:
        yield warning(
            FindingKind.AUTHORITIES_DIFFER,
            f"the nodes trust different authorities, and share {' and '.join(sorted(shared))} ({said})",
            "If one is being replaced, go on: both in tls.ca of every node, then new certificates, then the old one "
            "out of tls.ca. The nodes read the files by themselves.",
        )
    else:
        yield broken(
            FindingKind.AUTHORITIES_DIFFER,
            f"the nodes have no authority in common ({said})",
            "Put the certificates of all these authorities into tls.ca of every node: they read it by themselves.",
        )


def secrets(statuses: list[Status]) -> Iterator[Finding]:
    """Who does not accept what another one speaks; and a replacement that is not finished."""
    told = [status for status in statuses if status.secrets]
    for status in told:
        deaf = [name(other) for other in told if status.secrets[0] not in other.secrets]
        if deaf:
            yield broken(
                FindingKind.SECRET_UNKNOWN,
                f"{name(status)} speaks secret {status.secrets[0]}, which {', '.join(deaf)} does not accept",
                "On their machines, with a copy of its file: they read theirs again by themselves.",
                "epoxy secret add SECRET-FILE COPY",
            )
    spoken = {status.secrets[0] for status in told}
    double = [status for status in told if len(status.secrets) > 1]
    if len(spoken) > 1:
        who = ", ".join([f"{name(status)}: {status.secrets[0]}" for status in told])
        yield warning(
            FindingKind.SECRET_REPLACED,
            f"the secret is being replaced: the nodes speak different ones ({who})",
            "Go on, at the nodes that speak the old one.",
            "epoxy secret switch SECRET-FILE",
        )
    elif double:
        yield warning(
            FindingKind.SECRET_REPLACED,
            f"{plural(len(double), 'node')} of {len(told)} accept two secrets; all speak {min(spoken)}",
            "A replacement is not finished. If that is the new one, drop the old one at these nodes. If it is the "
            "old one: `epoxy secret add` where there is one, then `epoxy secret switch` everywhere.",
            "epoxy secret drop SECRET-FILE",
        )


def placeholders(statuses: list[Status]) -> Iterator[Finding]:
    """Secrets that are no secret, by their fingerprints. One of 16 million others has the same as each."""
    known = {fingerprint_of(word.encode()): word for word in PLACEHOLDERS}
    for status in statuses:
        for secret in status.secrets:
            if secret in known:
                yield broken(
                    FindingKind.SECRET_DEFAULT,
                    f"the secret {secret} of {name(status)} is that of an example: {known[secret]!r}",
                    "Make one, and replace it at all nodes without a stop (`epoxy secret --help` has the steps).",
                    "epoxy secret new new-secret",
                    "epoxy secret add SECRET-FILE new-secret",
                    "epoxy secret switch SECRET-FILE",
                    "epoxy secret drop SECRET-FILE",
                )
