"""Tokens, as an operator's client sees them: `client.auth.create_token("ci", ["writer"], prefixes=["user/"])`."""

from epoxy.client import auth_calls
from epoxy.client.methods import AsyncRunner, Runner, awaited, blocking


class Auth:
    whoami = blocking(auth_calls.whoami)
    grants = blocking(auth_calls.grants)
    create_token = blocking(auth_calls.create_token)
    rotate_token = blocking(auth_calls.rotate_token)
    revoke_token = blocking(auth_calls.revoke_token)

    def __init__(self, client: Runner) -> None:
        self._run = client._run


class AsyncAuth:
    """As `Auth`, awaited."""

    whoami = awaited(auth_calls.whoami)
    grants = awaited(auth_calls.grants)
    create_token = awaited(auth_calls.create_token)
    rotate_token = awaited(auth_calls.rotate_token)
    revoke_token = awaited(auth_calls.revoke_token)

    def __init__(self, client: AsyncRunner) -> None:
        self._run = client._run
