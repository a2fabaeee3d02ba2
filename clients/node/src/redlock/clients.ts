/** The clients of a Redlock, and the locks on them: one for all that are made on the same clients. */

import type { Client } from "../client.ts";
import type { Grant } from "../grant.ts";
import { Locks } from "../locks.ts";
import { QuorumLocks, type QuorumOptions } from "../quorum/locks.ts";
import type { Lock } from "../lock.ts";
import type { Ballot } from "./votes.ts";

/** A client of ioredis or node-redis, on one server or a cluster. */
export type RedlockClient = Exclude<Client, (...given: never) => unknown>;

/** What a Redlock needs of the locks on its clients. */
export interface Source {
  /** The locks of one operation, whose votes are counted there. */
  forOne(ballot: Ballot): { lock(key: string, options: QuorumOptions): Lock<QuorumOptions> };
  /** Goes on with a grant that is known by its owner alone, beside all who do; none where that is not to be found. */
  adopt(key: string, owner: string): Promise<Grant | undefined>;
  close(): Promise<void>;
}

interface Shared {
  readonly clients: readonly RedlockClient[];
  readonly source: Source;
}

const sources = new WeakMap<RedlockClient, Set<Shared>>();

/** A process lives as long as its own clients do. */
const OPTIONS = { service: "redlock", unref: true };

function sourceOn(clients: readonly RedlockClient[]): Source {
  const [only] = clients;
  if (only && clients.length === 1) {
    const locks = new Locks(only, OPTIONS);
    return {
      forOne: () => locks.task(), // one owner for all resources
      async adopt(key, owner) {
        const holder = (await locks.holders(key)).find((it) => it.owner === owner);
        return holder && locks.adoptBeside(key, owner, holder.token, { fixed: true });
      },
      close: () => locks.close(),
    };
  }
  const locks = new QuorumLocks(clients, { ...OPTIONS, even: true });
  const forOne: Source["forOne"] = (ballot) =>
    ({ lock: (key, options) => locks.lock(key, { ...options, onVotes: ballot.of(key) }) });
  return { forOne, adopt: () => Promise.resolve(undefined), close: () => locks.close() };
}

/** The locks on these clients. Their connections end when all the clients have ended, or with `close`. */
export function sourceOf(clients: readonly RedlockClient[]): Source {
  const [first] = clients as readonly [RedlockClient];
  const known = sources.get(first) ?? new Set();
  sources.set(first, known);
  for (const shared of known) {
    if (shared.clients.length === clients.length && shared.clients.every((it, at) => it === clients[at])) return shared.source;
  }
  const source = sourceOn(clients);
  const shared: Shared = {
    clients,
    source: {
      ...source,
      close() {
        known.delete(shared);
        return source.close();
      },
    },
  };
  known.add(shared);
  const open = new Set(clients);
  for (const client of clients) {
    const ended = (): void => {
      open.delete(client);
      if (open.size === 0) void shared.source.close();
    };
    const { once } = client as { once(event: string, listener: () => void): unknown };
    for (const event of ["end", "disconnect"]) once.call(client, event, ended);
  }
  return shared.source;
}
