----------------------------- MODULE EpoxyFolds -----------------------------
(***************************************************************************)
(* How several writes of one key become one decision, and none of them     *)
(* takes effect twice.                                                     *)
(*                                                                         *)
(* An instance is named by its base, the version it builds on.  That all   *)
(* replicas agree on one decision for each base is what EpoxyPerKey        *)
(* specifies, so here a base is decided in one step: an adversary takes    *)
(* any fold that was ever put forward for it, at any time.                 *)
(*                                                                         *)
(* A fold is a sequence of writes.  It takes the key from version base to  *)
(* base + Len(ids), and each write has a version of its own.  A write      *)
(* belongs to a home, which may hand it over.  What was handed over stays  *)
(* in the air for ever: any replica may take it, at any time, any number   *)
(* of times, while its home goes on with it as well.                       *)
(*                                                                         *)
(* Four rules keep this safe, each with a switch:                          *)
(*                                                                         *)
(*   BaseRule     A replica puts forward only on top of the last version   *)
(*                of the newest decision it knows.                         *)
(*   LooksBack    Before it folds a write, it looks for it in all          *)
(*                decisions from the write's floor on (F3).                *)
(*   FloorOfHome  The floor is that of the home, and travels with the      *)
(*                write (F2).                                              *)
(*   SeesGaps     A replica that has not learned all these decisions does  *)
(*                not fold the write.                                      *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Replicas,
    Writes,       \* Numbers; the home of a write is its last digit.
    MaxFold,      \* The most writes of a fold.
    MaxOffers,    \* The most folds that are put forward: a bound for TLC alone.
    BaseRule, LooksBack, FloorOfHome, SeesGaps

Home(w) == w % 10

ASSUME \A w \in Writes : Home(w) \in Replicas

VARIABLES
    offers,   \* Folds that were put forward: [base, ids].
    decided,  \* Those of them that were decided.
    known,    \* For each replica, the decisions it has learned.
    floor,    \* For each replica and write: the floor, or one of the next two.
    carried   \* Writes that were handed over, with their floors: [id, floor].

vars == <<offers, decided, known, floor, carried>>

Absent    == 100   \* This replica does not have the write.
Unexposed == 99    \* It waits at its home, and was neither put forward nor handed over.

End(d)     == d.base + Len(d.ids)
Ids(d)     == {d.ids[i] : i \in 1..Len(d.ids)}
Max(S)     == CHOOSE x \in S : \A y \in S : y <= x
Version(r) == Max({0} \cup {End(d) : d \in known[r]})

Init == /\ offers  = {}
        /\ decided = {}
        /\ known   = [r \in Replicas |-> {}]
        /\ floor   = [r \in Replicas |-> [w \in Writes |-> IF Home(w) = r THEN Unexposed ELSE Absent]]
        /\ carried = {}

-----------------------------------------------------------------------------
(* The decisions of a replica above a version, and whether they reach from *)
(* there to its newest one without a gap.                                  *)
Above(r, v)   == {d \in known[r] : d.base >= v}
IsWhole(r, v) == \A u \in v..(Version(r) - 1) : \E d \in Above(r, v) : d.base <= u /\ u < End(d)

MayFold(r, w) ==
    \/ floor[r][w] = Unexposed
    \/ /\ floor[r][w] < Unexposed
       /\ LooksBack =>
            /\ \A d \in Above(r, floor[r][w]) : w \notin Ids(d)
            /\ SeesGaps => IsWhole(r, floor[r][w])

Folds(r) ==
    UNION {{s \in [1..n -> {w \in Writes : MayFold(r, w)}] : \A i, j \in 1..n : s[i] = s[j] => i = j} : n \in 1..MaxFold}

Bases(r) == IF BaseRule THEN {Version(r)} ELSE 0..Version(r)

(* An unexposed write gets its floor.  That of another one stays as it is: *)
(* to raise it, as replicas do, allows less.                               *)
PutForward(r) ==
    \E s \in Folds(r), b \in Bases(r) :
        /\ Cardinality(offers) < MaxOffers
        /\ offers' = offers \cup {[base |-> b, ids |-> s]}
        /\ floor'  = [floor EXCEPT ![r] = [w \in Writes |->
                         IF @[w] = Unexposed /\ \E i \in 1..Len(s) : s[i] = w THEN Version(r) ELSE @[w]]]
        /\ UNCHANGED <<decided, known, carried>>

HandOver(w) ==
    LET r == Home(w)
        f == IF floor[r][w] = Unexposed THEN Version(r) ELSE floor[r][w]
    IN /\ carried' = carried \cup {[id |-> w, floor |-> f]}
       /\ floor'   = [floor EXCEPT ![r][w] = f]
       /\ UNCHANGED <<offers, decided, known>>

Take(r, c) ==
    /\ Home(c.id) # r
    /\ floor' = [floor EXCEPT ![r][c.id] = IF FloorOfHome THEN c.floor ELSE Version(r)]
    /\ UNCHANGED <<offers, decided, known, carried>>

Decide(o) ==
    /\ \A d \in decided : d.base # o.base
    /\ decided' = decided \cup {o}
    /\ UNCHANGED <<offers, known, floor, carried>>

(* A replica that misses decisions learns a later one all the same.        *)
Learn(r, d) ==
    /\ d.base >= Version(r)
    /\ known' = [known EXCEPT ![r] = @ \cup {d}]
    /\ UNCHANGED <<offers, decided, floor, carried>>

Next ==
    \/ \E r \in Replicas : PutForward(r)
    \/ \E w \in Writes : HandOver(w)
    \/ \E r \in Replicas, c \in carried : Take(r, c)
    \/ \E o \in offers : Decide(o)
    \/ \E r \in Replicas, d \in decided : Learn(r, d)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Decisions follow each other, and none has versions of another.          *)
Chain ==
    /\ \A d \in decided : d.base = 0 \/ \E e \in decided : End(e) = d.base
    /\ \A d, e \in decided : d = e \/ End(d) <= e.base \/ End(e) <= d.base

NoIdTwice == \A d, e \in decided : d = e \/ Ids(d) \cap Ids(e) = {}
=============================================================================
