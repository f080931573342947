"""The kinds of what `epoxy doctor` finds: the code that scripts go by, and why it matters."""

import enum


class FindingKind(enum.Enum):
    """The value: its code, which stays what it is, and one line on why it matters. docs/operating-doctor.md has a row
    for each."""

    # Nodes, and whether they serve

    NODES_READY = "nodes-ready", ""
    NODE_SILENT = "node-silent", "Its state is unknown: it may be down, or only out of reach from here."
    NODE_NOT_ASKED = "node-not-asked", "What is wrong with a node that was not asked is not in this list."
    NODE_REFUSES = "node-refuses", "What a node does not tell this client is not in this list."
    NODE_NOT_READY = "node-not-ready", "It serves no clients."
    NODE_WAITS = "node-waits", "It serves no clients before it is a member."
    NODE_REMOVED = "node-removed", "The members ignore it, and its clients are refused."
    WRONG_NODE = "wrong-node", "The members' messages for one node go to another, which refuses them."
    TWIN_IDS = "twin-ids", "Two nodes with one id lose writes."
    SECOND_PROCESS = "second-process", "If it took the member's place, the member would be refused."
    OTHER_CLUSTER = "other-cluster", "Nodes of different clusters refuse each other, and clients find two clusters."
    AVAILABLE = "available", ""
    NO_QUORUM = "no-quorum", "Nothing can be written there; names that were reserved earlier can still be read."
    NO_SPARE = "no-spare", "When one more fails, nothing can be written."
    EPOCHS_DIFFER = "epochs-differ", "A node with an older epoch has missed a change of members."
    POLICIES_DIFFER = "policies-differ", "Nodes that count quorums differently may decide two values."
    FEW_REPLICAS = "few-replicas", "When one fails, nothing can be written."
    EVEN_REPLICAS = "even-replicas", "The last one costs as much as the others, and no more of them may fail."
    FAST_PAXOS = "fast-paxos", "A fresh key waits for more replicas than it has to."
    ROUNDS_WAIT = "rounds-wait", "It may have forgotten votes, and takes no short cut before they are known."
    SLOW_PATH = "slow-path", "A write that does not take one round trip takes three."

    # Stores

    STORE_EMPTY = "store-empty", "It has forgotten its votes: a vote of it might undo a decision."
    STORE_DISPLACED = "store-displaced", "The cluster knows another disk under its id."
    STORE_UNCONFIRMED = "store-unconfirmed", "It may have forgotten its votes, and is not heard before that is known."
    STORE_CONFIRMING = "store-confirming", "It does not vote before enough others have recorded its start."
    STORE_REFUSED = "store-refused", "It has forgotten some of its votes, and is never heard again."

    # Members, and changes of them

    MEMBER_AWAY = "member-away", "One failure fewer is survived, and the others keep on their disks what it misses."
    CHANGE_UNDER_WAY = "change-under-way", ""
    CHANGE_STUCK = "change-stuck", "Until it is done, a quorum of the old and one of the new members must be there."
    NEWCOMER_AWAY = "newcomer-away", "The change waits for it."
    NEWCOMER_SLOW = "newcomer-slow", "The change waits for it."
    TXNS_BEHIND = "txns-behind", "It orders no transactions until it has copied what it missed."
    TXNS_WAIT = "txns-wait", "It orders no transactions until it knows the members."
    DECISIONS_KEPT = "decisions-kept", "They take disk, and the member has to learn them when it is back."

    # Links and clocks

    LINK_CUT = "link-cut", "Each of the two counts the other as failed."
    CLOCKS_CLOSE = "clocks-close", ""
    CLOCK_SKEW = "clock-skew", "Signatures hold for 30 seconds: nodes farther apart refuse each other."
    CLOCKS_UNKNOWN = "clocks-unknown", "Nodes that are more than 30 seconds apart refuse each other."
    NEAR_DATACENTERS = "near-datacenters", "They may share a building, and fail together."
    NO_ENCRYPTION = "no-encryption", "Keys, values and tokens can be read on the network."

    # Disks

    INVARIANT_BROKEN = "invariant-broken", "Data may be wrong. Nothing was overwritten."
    EXCEPTIONS = "exceptions", "Only a bug explains them."
    SLOW_DISK = "slow-disk", "Every acknowledgement of that node waits for a sync of its disk."
    ROT = "rot", "Rows that are not what was written are not served."
    ROT_REPAIRED = "rot-repaired", "Its disk does not keep what was written."
    UNCHECKED_ROWS = "unchecked-rows", "Rot that is not found in time may hit the same row at a second node."
    DISK_SPACE = "disk-space", "A full disk ends the node."
    LONG_CHANGELOG = "long-changelog", "It grows until the disk is full."

    # Certificates and secrets

    CERTIFICATE_EXPIRED = "certificate-expired", "New connections that need it fail."
    CERTIFICATE_EXPIRES = "certificate-expires", "From then on, new connections that need it fail."
    CERTIFICATE_FLAW = "certificate-flaw", "Peers that check it as this node would itself refuse it."
    AUTHORITIES_DIFFER = "authorities-differ", "A node refuses a peer whose authority it does not know."
    SECRET_UNKNOWN = "secret-unknown", "A node that speaks what another does not accept is not heard there."
    SECRET_REPLACED = "secret-replaced", "The old secret is good as long as a node accepts it."
    SECRET_DEFAULT = "secret-default", "It is no secret: any machine that reaches a node can speak as a member."
    SECRET_READABLE = "secret-readable", "With it any process can speak as a member, or as that node."
    TOKEN_READABLE = "token-readable", "With it any process may do what this client may."

    FILE_WRONG = "file-wrong", "The node does not start with it."

    # Access

    TOKENS_ASKED = "tokens-asked", ""
    OPEN_ACCESS = "open-access", "Any machine that reaches that address may do it."
    MIXED_ACCESS = "mixed-access", "A cluster is as open as its most open node: a write there is one everywhere."
    GRANTS_APART = "grants-apart", "A token that was revoked is still accepted where that is not known."
    GRANTS_OLD = "grants-old", "A token that was revoked meanwhile is still accepted there."
    GRANTS_UNSEEN = "grants-unseen", "Tokens that end soon or may do too much are not in this list."
    NO_OPERATOR = "no-operator", "Members, backups and tokens can only be had with the cluster's secret."
    GRANT_EXPIRED = "grant-expired", "Its clients are refused."
    GRANT_EXPIRES = "grant-expires", "From then on its clients are refused."
    GRANT_BROAD = "grant-broad", "One leaked token is the whole cluster."

    # Actors

    HOMELESS_ACTORS = "homeless-actors", "They do not run, and their alarms do not ring, until they are taken over."
    NO_WORKERS = "no-workers", "Actors of clients that are near it are hosted in other regions."
    ACTORS_UNSEEN = "actors-unseen", "Actors whose home is gone, and regions without workers, are not in this list."

    # Versions

    VERSIONS_DIFFER = "versions-differ", "The last two releases run mixed, and only these; what is new is used by none."
    VERSION_HERE = "version-here", "An older doctor does not know what newer nodes can tell."

    # Datacenters of several nodes

    DATACENTER_FINE = "datacenter-fine", ""
    DATABASE_AWAY = "database-away", "Nothing is decided there until it is back: outcomes are unknown."
    DATABASE_LATE = "database-late", "When its lease ends before the database answers, it decides nothing."
    NODE_OF_DATACENTER_SILENT = "session-silent", "Keys of shards that it owns wait until others have taken them."
    SHARDS_ORPHANED = "shards-orphaned", "Their keys wait."
    NO_GATEWAY = "no-gateway", "Its datacenter speaks with no other, and decides nothing."
    SHARDS_UNEVEN = "shards-uneven", "Some of the nodes do the work of the others."
    NODE_WITHOUT_SHARDS = "node-without-shards", "It does no work for keys of clients."
    ADDRESS_UNLISTED = "address-unlisted", "If it becomes the gateway, other datacenters do not find it."
    LEASE_ENDING = "lease-ending", "When its lease ends, its keys wait until others have taken its shards."
    LEASES_DIFFER = "leases-differ", "Keys of a node that dies wait as long as its lease; a short one ends by accident."

    @property
    def code(self) -> str:
        return self.value[0]

    @property
    def why(self) -> str:
        return self.value[1]
