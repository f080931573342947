"""Orders to the emulated links of this node."""

from collections.abc import Callable

import msgspec

from epoxy.api.http.calls import ApiCall
from epoxy.api.http.operator_signature import OperatorSignatures
from epoxy.api.http.routes import Route
from epoxy.codec import json_text
from epoxy.model.access import Access
from epoxy.model.errors import CodecError
from epoxy.transport.limits import LINKS_PATH
from epoxy.transport.wan.emulation import Link, LinkChange

changes = msgspec.json.Decoder(LinkChange)


class LinkRoutes:
    """`peers`: the other members now."""

    def __init__(self, link: Link, signatures: OperatorSignatures, peers: Callable[[], frozenset[int]]) -> None:
        self._link = link
        self._signatures = signatures
        self._peers = peers

    def table(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path=LINKS_PATH.decode(),
                handler=self.post,
                kind="http_post_links",
                access=Access.OPERATE,
                needs_ready=False,
                signed=True,
            )
        ]

    def post(self, call: ApiCall) -> None:
        call.parameters()
        signed = self._signatures.check(call)
        call.target = call.request.body.decode("utf-8", "replace")
        try:
            change = json_text.decode(changes, call.request.body)
        except CodecError as error:
            call.fail(400, "bad_request", str(error))
            return
        if strangers := {*change.heal, *change.cut, *change.slow} - self._peers():
            call.fail(404, "unknown_peer", f"no peers of this node: {sorted(strangers)}")
        else:
            self._link.apply(change)
            self._signatures.answer(call, signed, msgspec.json.encode(self._state()))

    def _state(self) -> dict[str, object]:
        slowed = self._link.slowed()
        return {"cut": self._link.state(), **({"slow": slowed} if slowed else {})}
