"""What the tests of the state share: they try the rules of docs/client-protocol.md by plain calls, without a server.

† marks a rule that its model cannot do without. The clock starts at 100 s, the client's lease is 10 s, a reply takes at
most 1 s, and session 7 is open.
"""

from redis_lock_client.state import Claim, Fault, State, Terms
from redis_lock_client.state.grants import DETACH, Call

NO_REPLY = Fault("timeout")
NOT_SENT = Fault("refused", sent=False)
GONE = ["NOTHELD x", "NOTOWNER x", "FENCED x", "WRONGTYPE x"]


def grant_of(token, lease_ms=10_000, holds=1):
    return [token, "o", holds, lease_ms]


class Rig(State):
    def __init__(self, is_cluster=False, session=7):
        super().__init__("server", 10.0, 1.0, is_cluster)
        self.at = 100.0
        self.opened(self.at, session)

    def claim(self, key, wait=5.0, owner="o", task=None, **words):
        terms = Terms((), words.pop("lease", 10.0), words.pop("fixed", False), wait)
        claim = Claim((key, owner), terms, self.at, task=task, **words)
        self.ask(claim)
        return claim

    def under_way(self, key="k", **words):
        """A wait whose ACQUIRE is under way."""
        claim = self.claim(key, **words)
        step = self.step(claim)
        assert isinstance(step, Call)
        return claim, step

    def in_line(self, key="k", **words):
        claim, ask = self.under_way(key, **words)
        ask.apply(self.at, 0)
        return claim

    def taken(self, key="k", token=50, **words):
        """A grant that the user has, sure for 10 s."""
        claim, ask = self.under_way(key, **words)
        ask.apply(self.at, grant_of(token))
        assert self.step(claim) is None
        return claim

    def detached_grant(self, reply=None):
        """A grant with the token 50 that the user has detached."""
        claim = self.taken()
        self.end_call(self.begin(claim, DETACH))
        self.answered(claim, DETACH, self.at, reply or grant_of(50), False)

    def polling(self):
        """Sends a POLL. The result applies its reply."""
        sent, poll = self.at, self.begin_poll()

        def reply(*events, sure_ms=10_000, grants=None):
            numbered = [[self.seen + 1 + number, *event] for number, event in enumerate(events)]
            grants = len(self.grants) if grants is None else grants
            poll.apply(sent, ["sure-ms", sure_ms, "grants", grants, "events", numbered])

        return reply

    def poll(self, *events, **words):
        self.polling()(*events, **words)

    def send_due(self, *replies):
        """Sends what is due; gives each command its reply, the last one to the rest."""
        due = self.due()
        for number, call in enumerate(due):
            if replies:
                call.apply(self.at, replies[min(number, len(replies) - 1)])
        return [" ".join(map(str, call.command)) for call in due]



def lost(key, token, reason="deleted"):
    return ["lost", key, "o", token, reason]


def granted(key, token):
    return ["granted", key, "o", token, 1, 10_000, 1]


def ended(key, why):
    return ["ended", key, "o", why]
