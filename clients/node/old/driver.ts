/** What this package needs of a client library: connections made as the user's client makes its own. */

import type { Stop } from "./stop.ts";

/** The words of a command. */
export type Words = readonly [name: string, ...arguments: (string | number)[]];

/** Where a server of a cluster is. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** A connection of the library that has logged in, and that does not come back when it closes. */
export interface Socket {
  /** Rejects with ServerReply or NoReply. */
  send(words: Words): Promise<unknown>;
  /** Closes at once; no command is sent. */
  destroy(): void;
  /** From now on it keeps no process alive. */
  unref(): void;
}

/** A connection that is being opened. */
export interface Opening {
  /** Rejects with ServerReply (the login was refused) or NoReply. */
  readonly ready: Promise<Socket>;
  /** Calls the opening off, or closes what it opened. */
  destroy(): void;
}

export interface OpenOptions {
  /** For CLIENT SETNAME, which may fail. */
  readonly name: string;
  /** How long connecting may take. */
  readonly ms: number;
  /** Called once, when a connection that was ready has closed. */
  readonly closed: (why: Error) => void;
  /** A server of the cluster. */
  readonly at?: Address | undefined;
}

/** One for each client library. */
export interface Driver {
  /** What the user's client puts before each key. */
  readonly prefix: string;
  /** How errors name the server; empty where the client does not tell. */
  readonly server: string;
  /** Its connections keep no process alive. */
  readonly unref?: boolean;
  /** Of a cluster: some of its servers, and how their addresses are seen from here. */
  readonly cluster?: {
    seeds(stop: Stop, until: number): Promise<readonly Address[]>;
    seen(address: Address): Address;
  };
  open(options: OpenOptions): Opening;
  /**
   * Sends a command that only looks on the user's own client; the key is without the prefix. After
   * `ms` nobody waits for it any more.
   */
  look(command: string, key: string, ms: number): Promise<unknown>;
}
