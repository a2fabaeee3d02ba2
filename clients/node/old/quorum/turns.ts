/** Waiting for a lock that is not free: attempt after attempt, and in between a place in the line of one server. */

import { LockError, LockUnavailable, NoReply, ServerReply } from "../errors.ts";
import { Stop } from "../stop.ts";
import { now } from "../time.ts";
import { waitInLine } from "../wait.ts";
import type { Member } from "./member.ts";

/**
 * How long a wait in one server's line lasts before all servers are tried again, besides up to as much again by chance:
 * that server may be the only one where the lock is not free.
 */
const PATIENCE = 1000;

/** Who waits, in whose line, for how long. */
export interface Place {
  readonly member: Member;
  readonly name: string;
  readonly owner: string;
  readonly lease: number;
  readonly until: number;
}

/**
 * Waits until the lock is this owner's on the server, or for as long as is good. True where the owner may be used for an
 * attempt: it finds its grant. Rejects with what stopped it: then neither a wait nor a grant is left.
 */
export async function waitForTurn({ member, name, owner, lease, until }: Place, stop: Stop,
  background: (task: Promise<unknown>) => void): Promise<boolean> {
  const { reply } = member.servers;
  const left = Math.min(PATIENCE * (1 + Math.random()), Math.max(1, until - now()));
  const key = member.prefix + name;
  const words = ["LOCK.ACQUIRE", key, owner, "PX", lease, "HOLDS", 1] as const;
  const end = now() + left;
  try {
    await waitInLine(member.servers, { key, name, owner, isNamed: false, words, until: end, end: end + reply, replicas: 0 }, stop, background);
    return true;
  } catch (error) {
    if (!(error instanceof NoReply || error instanceof ServerReply || error instanceof LockUnavailable)) throw error;
    const cause = error instanceof LockError ? error : new LockUnavailable(`${name}: ${error.message}`, { key: name, cause: error });
    if (!(error instanceof ServerReply)) {
      member.learn(key, cause);
      background(member.release(key, owner, { name, ms: reply }).catch(() => {}));
    }
    return false;
  }
}

/**
 * The pauses between attempts: up to as long as the attempt took, by chance, so that one of several that have split the
 * servers among them comes first; with each failure up to twice as long.
 */
export class Pauses {
  static readonly #longest = 250;
  static readonly #longestAtFirst = 20;
  #most = 0;

  take(attempt: number, until: number, stop: Stop): Promise<void> {
    const first = Math.min(Math.max(1, attempt), Pauses.#longestAtFirst);
    this.#most = Math.min(Math.max(first, this.#most * 2), Pauses.#longest);
    return stop.pause(Math.random() * this.#most, until);
  }
}
