"""Findings about certificates that expire, and about secrets that differ between nodes or are being replaced."""

from collections.abc import Iterator

from epoxy.cli.findings import Finding, broken, name, warning
from epoxy.cli.output import plural
from epoxy.client.results import Status

DAY_S = 86_400.0

SOON_DAYS = 14
"""As for the node's log: time to order a certificate by hand."""

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
                yield broken(f"{what} has expired", f"New connections that need it fail. {advice}")
            else:
                yield warning(f"{what} expires in {plural(days, 'day')}", advice)


def secrets(statuses: list[Status]) -> Iterator[Finding]:
    """Who does not accept what another one speaks; and a replacement that is not finished."""
    told = [status for status in statuses if status.secrets]
    for status in told:
        deaf = [name(other) for other in told if status.secrets[0] not in other.secrets]
        if deaf:
            yield broken(
                f"{name(status)} speaks secret {status.secrets[0]}, which {', '.join(deaf)} does not accept",
                "Add it to their file as the second line (`epoxy secret add`): they read it by itself.",
            )
    spoken = {status.secrets[0] for status in told}
    double = [status for status in told if len(status.secrets) > 1]
    if len(spoken) > 1:
        who = ", ".join([f"{name(status)}: {status.secrets[0]}" for status in told])
        yield warning(
            f"the secret is being replaced: the nodes speak different ones ({who})",
            "Go on: `epoxy secret switch` at the nodes that speak the old one.",
        )
    elif double:
        yield warning(
            f"{plural(len(double), 'node')} of {len(told)} accept two secrets; all speak {min(spoken)}",
            "A replacement is not finished. If that is the new one, `epoxy secret drop` at these nodes. If it is the "
            "old one: `epoxy secret add` where there is one, then `epoxy secret switch` everywhere.",
        )
