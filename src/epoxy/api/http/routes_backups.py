"""An online backup: begun, followed, read block by block, and ended. The format of blocks: `epoxy/backup/format.py`."""

from functools import partial
from typing import Annotated

from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, number, shown
from epoxy.api.http.routes import JSON, NO_LENGTH, OCTETS, Parameter, Route, RouteAnswer, refusal
from epoxy.backup.backups import Backup, Backups, BlockAnswer
from epoxy.model.access import Access
from epoxy.model.api import Count, documented
from epoxy.model.api_backups import BackupState

PATH = "/v2/admin/backups"

MAX_NUMBER = (1 << 32) - 1
"""Of a block: 4 PiB of them."""

ID = Parameter("id", Annotated[str, documented(pattern="^[0-9a-f]{16}$")], "Of the backup.", required=True)
UNKNOWN = refusal("No such backup: it was ended, or nothing was asked for a minute.", "no_such_backup")
STATE = RouteAnswer("The backup.", {JSON: BackupState})


class BackupRoutes:
    def __init__(self, backups: Backups) -> None:
        self._backups = backups

    def table(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path=PATH,
                handler=self.post,
                kind="http_post_backup",
                access=Access.OPERATE,
                operation="beginBackup",
                summary="Begin a backup",
                answers={
                    202: RouteAnswer("It has begun.", {JSON: BackupState}),
                    409: refusal("Another one is under way at this node.", "backup_running"),
                    411: NO_LENGTH,
                },
            ),
            Route(
                method="GET",
                path=PATH,
                handler=self.get,
                kind="http_get_backup",
                access=Access.OPERATE,
                operation="getBackup",
                summary="How far a backup is",
                parameters=(ID,),
                answers={200: STATE, 404: UNKNOWN},
            ),
            Route(
                method="DELETE",
                path=PATH,
                handler=self.delete,
                kind="http_delete_backup",
                access=Access.OPERATE,
                operation="endBackup",
                summary="End a backup, finished or not",
                parameters=(ID,),
                answers={204: RouteAnswer("It is over."), 404: UNKNOWN},
            ),
            Route(
                method="GET",
                path=f"{PATH}/blocks",
                handler=self.block,
                kind="http_get_backup_block",
                access=Access.OPERATE,
                operation="getBackupBlock",
                summary="A block of a backup that is ready",
                parameters=(
                    ID,
                    Parameter("from", Count, "From 0. The last one may be asked for again.", required=True),
                ),
                answers={
                    200: RouteAnswer("The block, about 1 MiB.", {OCTETS: bytes}),
                    204: RouteAnswer("There are no more."),
                    404: UNKNOWN,
                    409: refusal("It is not ready, has failed, or this block is not the next.", "no_such_block"),
                },
                head=False,
            ),
        ]

    def post(self, call: ApiCall) -> None:
        call.parameters()
        running = self._backups.running
        if running is not None:
            message = (
                f"backup {running} is under way; a node makes one at a time, and ends one whose reader is silent for a "
                "minute"
            )
            call.fail(409, "backup_running", message, retry_after_ms=RETRY_AFTER_MS)
        else:
            call.json(202, self._backups.begin().state())

    def get(self, call: ApiCall) -> None:
        call.json(200, self._found(call).state())

    def delete(self, call: ApiCall) -> None:
        self._found(call)
        self._backups.end("it was ended")
        call.answer(204)

    def block(self, call: ApiCall) -> None:
        given = call.parameters()
        backup = self._found(call)
        wanted = number(given, b"from", low=0, high=MAX_NUMBER)
        if wanted is None:
            raise BadRequest(400, "bad_parameter", "from is missing: the number of the block")
        backup.block(wanted, partial(answer_block, call))

    def _found(self, call: ApiCall) -> Backup:
        name = call.parameters().get(b"id")
        if name is None:
            raise BadRequest(400, "bad_parameter", "id is missing: that of the backup")
        backup = self._backups.find(name.decode("ascii", "replace"))
        if backup is None:
            words = f"there is no backup '{shown(name)}' here: it was ended, or this node was started again since"
            raise BadRequest(404, "no_such_backup", words)
        return backup


def answer_block(call: ApiCall, block: BlockAnswer) -> None:
    match block:
        case bytes():
            call.answer(200, block)
        case None:
            call.answer(204)
        case _:
            call.fail(409, "no_such_block", block)
