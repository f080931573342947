"""Which of redis-py's tests concern what a node offers: strings, keys, expiry, transactions, scripts, connections.

A test is told by the commands it sends. One that sends any other command concerns lists, sets, hashes, streams,
publishing, modules, clusters or the administration of a Redis; one that sends none talks to no server.
"""

from collections.abc import Collection

STRINGS = """APPEND DECR DECRBY DELEX DIGEST GET GETDEL GETEX GETRANGE GETSET INCR INCRBY INCRBYFLOAT LCS MGET MSET
MSETEX MSETNX PSETEX SET SETEX SETNX SETRANGE STRLEN SUBSTR"""
KEYS = "COPY DBSIZE DEL DUMP EXISTS KEYS RANDOMKEY RENAME RENAMENX RESTORE SCAN TOUCH TYPE UNLINK"
EXPIRY = "EXPIRE EXPIREAT EXPIRETIME PERSIST PEXPIRE PEXPIREAT PEXPIRETIME PTTL TTL"
TRANSACTIONS = "DISCARD EXEC MULTI UNWATCH WATCH"
SCRIPTS = "EVAL EVALSHA EVAL_RO EVALSHA_RO SCRIPT:LOAD SCRIPT:EXISTS SCRIPT:FLUSH"
CONNECTIONS = """AUTH ECHO HELLO PING QUIT RESET SELECT CLIENT:ID CLIENT:GETNAME CLIENT:SETNAME CLIENT:SETINFO
CLIENT:INFO CLIENT:LIST CLIENT:NO-EVICT CLIENT:NO-TOUCH"""

HANDSHAKE = frozenset(("HELLO", "CLIENT:SETINFO", "CLIENT:MAINT_NOTIFICATIONS"))
"""Sent by redis-py with each connection. A test that sends no more than this asks the server for nothing."""

SCOPE = HANDSHAKE.union(*(each.split() for each in (STRINGS, KEYS, EXPIRY, TRANSACTIONS, SCRIPTS, CONNECTIONS)))

FILES = (
    *(f"tests/test_{name}.py" for name in ("commands", "lock", "pipeline", "scripting", "encoding", "connection")),
    *(f"tests/test_{name}.py" for name in ("connection_pool", "client", "multiprocessing")),
    *(f"tests/test_asyncio/test_{name}.py" for name in ("commands", "lock", "pipeline", "scripting", "encoding")),
    *(f"tests/test_asyncio/test_{name}.py" for name in ("connection", "connection_pool")),
)
"""Those of the suite that send such commands."""


def concerns(commands: Collection[str]) -> bool:
    return not HANDSHAKE.issuperset(commands) and SCOPE.issuperset(commands)
