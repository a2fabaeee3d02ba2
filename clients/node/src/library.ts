/** What this package needs of a client library: connections with the settings of the user's client. */

import type { Words } from "./state/claim.ts";

/** Where a server is. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

export const textOf = ({ host, port }: Address): string => (host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`);

/** A connection that does not come back when it closes. */
export interface Connection {
  /** Resolves when it has logged in. */
  readonly ready: Promise<unknown>;
  /** `isTogether`: it may leave with what else is sent before the next tick. */
  send(words: Words, isTogether?: boolean): Promise<unknown>;
  close(): void;
}

/** One for each client library. */
export interface Library {
  /** How errors name the server. */
  readonly address: string;
  /** What the user's client puts before each key. */
  readonly prefix: string;
  /** Of a cluster: nodes that the user's client knows, and how their addresses are seen from here. */
  readonly cluster?: {
    seeds(): readonly Address[];
    seen(address: Address): Address;
  };
  /** `limit`: how long connecting may take. `closed` is called when it closes. */
  open(at: Address | undefined, limit: number, closed: () => void): Connection;
}
