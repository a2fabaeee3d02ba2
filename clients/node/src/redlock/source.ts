/** The locks on the clients of a Redlock. All Redlocks on the same clients share them. */

import type { EventEmitter } from "node:events";
import { endClient } from "../end-client.ts";
import { type Client, Locks } from "../locks.ts";
import { QuorumLocks } from "../quorum/locks.ts";

/**
 * A client of ioredis or node-redis, on one server or a cluster. Those of node-redis are connected.
 *
 * @see {@link Redlock} for an example
 */
export type RedlockClient = Exclude<Client, (...given: never) => unknown>;

const sources = new WeakMap<RedlockClient, Set<Source>>();

export class Source {
  readonly clients: readonly RedlockClient[];
  readonly locks: Locks | QuorumLocks;

  private constructor(clients: readonly RedlockClient[], first: RedlockClient) {
    this.clients = clients;
    this.locks = clients.length === 1 ? new Locks(first, { service: "redlock" }) : new QuorumLocks(clients, { service: "redlock" });
    // A process that only ends its clients is to end, too. A client of a server that is down may end without an event.
    const ended = new Set<RedlockClient>();
    for (const client of clients) {
      const end = (): void => {
        if (ended.add(client).size > clients.length / 2) void this.close();
      };
      for (const event of ["end", "disconnect"]) (client as unknown as EventEmitter).once(event, end);
    }
  }

  static of(clients: readonly RedlockClient[]): Source {
    const [first] = clients as [RedlockClient];
    const known = sources.get(first) ?? new Set();
    sources.set(first, known);
    const isSame = (it: Source): boolean => it.clients.length === clients.length && it.clients.every((client, at) => client === clients[at]);
    const source = [...known].find(isSame) ?? new Source(clients, first);
    known.add(source);
    return source;
  }

  /** Releases everything, and closes the connections of the locks. The next use of the clients begins anew. */
  async close(): Promise<void> {
    for (const client of this.clients) sources.get(client)?.delete(this);
    await this.locks.close();
  }

  async end(): Promise<void> {
    await this.close();
    await Promise.all(this.clients.map(endClient));
  }
}
