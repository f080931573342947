from epoxy.model.access import SATISFYING, Access, AccessRole, Grant
from epoxy.protocol.access.principal import OPEN, Principal


def principal(*roles: AccessRole, prefixes: tuple[bytes, ...] = (), pools: tuple[str, ...] = ()) -> Principal:
    return Principal(Grant(name="ci", roles=roles, prefixes=prefixes, pools=pools))


def test_each_role_has_what_the_table_says_and_nothing_else() -> None:
    for role in AccessRole:
        had = {access for access in Access if principal(role).has(access)}
        assert had == {Access.PUBLIC} | {access for access, roles in SATISFYING.items() if role in roles}
        assert Access.PEER not in had


def test_a_reader_does_not_write_and_a_writer_reads() -> None:
    reader, writer = principal(AccessRole.READER), principal(AccessRole.WRITER)
    assert (reader.may_read(b"a"), reader.may_write(b"a")) == (True, False)
    assert (writer.may_read(b"a"), writer.may_write(b"a")) == (True, True)


def test_an_operator_has_no_part_in_the_data() -> None:
    operator = principal(AccessRole.OPERATOR)
    assert operator.operates
    assert not (operator.may_read(b"a"))
    assert not (operator.may_write(b"a"))
    assert not (operator.may_call(b"a"))


def test_prefixes_limit_keys_lists_and_actors() -> None:
    limited = principal(AccessRole.WRITER, AccessRole.CALLER, prefixes=(b"user/", b"chat/"))
    assert limited.may_write(b"user/ada")
    assert limited.may_read(b"chat/x")
    assert limited.may_call(b"chat/room/1")
    assert not (limited.may_write(b"users"))
    assert not (limited.may_read(b"tenant/x"))
    assert not (limited.may_call(b"default/room/1"))
    assert limited.may_list(b"user/a")
    assert not limited.may_list(b"use")
    assert not limited.may_list(b"")
    assert not limited.reads_all


def test_a_pool_is_of_all_namespaces_or_of_one() -> None:
    assert principal(AccessRole.WORKER).may_work("default", "chat")
    worker = principal(AccessRole.WORKER, pools=("chat", "prod/games"))
    assert worker.may_work("default", "chat")
    assert worker.may_work("prod", "chat")
    assert worker.may_work("prod", "games")
    assert not worker.may_work("default", "games")
    assert not principal(AccessRole.CALLER, pools=("chat",)).may_work("default", "chat")


def test_a_client_of_an_open_node_may_do_everything_that_needs_no_secret() -> None:
    assert OPEN.reads_all
    assert OPEN.may_write(b"x")
    assert OPEN.may_call(b"x")
    assert OPEN.may_work("a", "b")
    assert OPEN.operates
    assert not OPEN.has(Access.PEER)
