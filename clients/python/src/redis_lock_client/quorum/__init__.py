"""One lock over several independent servers, with a fencing token that rises from holder to holder.

    quorum = Quorum([redis.Redis(host=f"10.0.0.{n}") for n in (1, 2, 3)], name="reports")
    with quorum.lock("lock:report", wait=10) as grant:
        print("fence writes with", grant.token)

The protocol, why it works and what it needs: docs/quorum.md of redis-lock.
"""

from .grant import QuorumGrant
from .locks import Quorum

__all__ = ["Quorum", "QuorumGrant"]
