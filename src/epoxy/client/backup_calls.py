"""The requests of a backup, and what their answers mean: a part of `calls.py`. A backup belongs to the node that makes
it: a client of one node alone asks for its blocks."""

from functools import partial
from urllib.parse import urlencode

from epoxy.client.calls import Call, get_json, post_json
from epoxy.client.http1 import HttpResponse
from epoxy.client.responses import fail, read_json
from epoxy.model.api_backups import BackupState

PATH = "/v2/admin/backups"


def begin_backup(*, timeout: float | None = None) -> Call[BackupState]:
    """Begin a backup at this node. It is ready when its state says so, and ends if it is not asked for."""
    return post_json(PATH, b"", partial(read_json, BackupState, status=202, writes=True), timeout=timeout)


def backup_state(backup_id: str, *, timeout: float | None = None) -> Call[BackupState]:
    return get_json(f"{PATH}?{urlencode({'id': backup_id})}", partial(read_json, BackupState), timeout)


def backup_block(backup_id: str, number: int, *, timeout: float | None = None) -> Call[bytes | None]:
    """The next block, or the last one again. None: there are no more."""

    def read(answer: HttpResponse) -> bytes | None:
        if answer.status not in (200, 204):
            fail(answer, writes=False)
        return answer.body if answer.status == 200 else None

    target = f"{PATH}/blocks?{urlencode({'id': backup_id, 'from': number})}"
    return Call(method="GET", target=target, read=read, timeout=timeout)


def end_backup(backup_id: str, *, timeout: float | None = None) -> Call[None]:
    def read(answer: HttpResponse) -> None:
        if answer.status not in (204, 404):
            fail(answer, writes=False)

    return Call(method="DELETE", target=f"{PATH}?{urlencode({'id': backup_id})}", read=read, timeout=timeout)
