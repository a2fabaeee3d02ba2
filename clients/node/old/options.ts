/** What users can say of a lock, and what is made of it. */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { LockMisuse } from "./errors.ts";

/** All times are in milliseconds. */
export interface LockOptions {
  /** How long to wait in line; not at all by default, `Infinity`: for ever. */
  readonly wait?: number | undefined;
  /** How long others wait when this process has died; 10 s by default. */
  readonly lease?: number | undefined;
  /** How long the process may stand still, or the network be silent; 30 s by default. */
  readonly keep?: number | undefined;
  /** The lease is not renewed: the lock is held for `lease`, and no longer. */
  readonly fixed?: boolean | undefined;
  /** The lock is kept for at most so long. */
  readonly atMost?: number | undefined;
  /** An owner of your own, for a lock that is not tied to this process. */
  readonly owner?: string | undefined;
  /** So many replicas have to acknowledge the grant. */
  readonly replicas?: number | undefined;
  /** Calls the acquire off. */
  readonly signal?: AbortSignal | undefined;
}

/** Options for all locks of a `Locks`. All times are in milliseconds. */
export interface LocksOptions {
  /** The first part of each owner's name, by which LOCK.INFO tells who holds a lock. */
  readonly service?: string | undefined;
  /** The lease of a lock that does not say its own: 10 s. */
  readonly lease?: number | undefined;
  /** The silence of a lock that does not say its own: 30 s. */
  readonly keep?: number | undefined;
  /** How long a reply may take, connecting included: 1 s. */
  readonly replyTimeout?: number | undefined;
  /** How long an acquire that does not wait may take in all: 1 s. */
  readonly tryTimeout?: number | undefined;
  /** How long a release may take: 2 s. */
  readonly releaseTimeout?: number | undefined;
  /** How long `close` may take: 2 s. */
  readonly closeTimeout?: number | undefined;
  /** The connections of the locks keep no process alive: false. */
  readonly unref?: boolean | undefined;
  /** Told what happens: for log lines and metrics. `redis-lock-client/otel` has one for OpenTelemetry. */
  readonly onEvent?: ((event: LockEvent) => void) | undefined;
}

/** What `onEvent` and the diagnostics channel `redis-lock-client` are told. */
export interface LockEvent {
  /**
   * `acquired` after `ms`; `busy` after `ms`, or `refused`, for any other `error`; `released`, with all its holds, after it
   * was held for `ms`, and with an `error` where that failed; `lost`: it ended otherwise. `keeper-lost` and `keeper-back`: the
   * connection that keeps the grants; `server-down` and `server-back`: a server of a quorum; `unheard`: an error that
   * nobody was there to be told.
   */
  readonly type: "acquired" | "busy" | "refused" | "released" | "lost" | "keeper-lost" | "keeper-back"
    | "server-down" | "server-back" | "unheard";
  readonly key?: string;
  readonly owner?: string;
  /** The server's `host:port` or path, or its name to the Sentinels, as far as the client tells. */
  readonly server?: string;
  readonly ms?: number;
  readonly error?: unknown;
}

/** The longest lease of the server. */
export const YEARS = 10 * 365 * 86_400_000;
const LEAST_KEPT = 1000;

/** What an acquire is to get. */
export interface Wish {
  readonly wait: number;
  readonly lease: number;
  /** 0: not kept. */
  readonly keep: number;
  readonly atMost: number;
  readonly owner: string | undefined;
  readonly replicas: number;
}

function wrong(what: string): never {
  throw new LockMisuse(what);
}

function time(name: string, value: number, least: number): number {
  if (typeof value !== "number" || !(value >= least && value <= YEARS)) {
    wrong(`${name} takes ${least} ms to ten years, not ${String(value)}`);
  }
  return Math.ceil(value);
}

export function checkKey(key: unknown): string {
  return typeof key === "string" && key !== "" ? key : wrong("a key is a string, and not empty");
}

export function checkLimit(limit: unknown): number {
  const isLimit = typeof limit === "number" && Number.isInteger(limit) && limit >= 1 && limit < 2 ** 31;
  return isLimit ? limit : wrong(`of takes 1 to 2^31 - 1, not ${String(limit)}`);
}

export function checkToken(token: unknown): void {
  if (!Number.isSafeInteger(token) || (token as number) < 1) wrong(`a token is a positive integer, not ${String(token)}`);
}

/** Rejects with LockMisuse what the server would not take. */
export function wishOf(options: LockOptions, defaults: LocksOptions, leastKept = LEAST_KEPT): Wish {
  const { wait = 0, fixed = false, atMost = Infinity, owner, replicas = 0 } = options;
  if (typeof wait !== "number" || !(wait >= 0)) wrong(`wait takes 0 ms to Infinity, not ${String(wait)}`);
  const given = options.lease ?? defaults.lease ?? 10_000;
  if (atMost !== Infinity) time("atMost", atMost, 1);
  if (fixed && atMost !== Infinity) wrong("a fixed lease is its own limit: atMost goes without fixed");
  if (owner !== undefined && (owner === "" || owner === "*" || Buffer.byteLength(owner) > 256)) {
    wrong("an owner has 1 to 256 bytes, and is not *");
  }
  if (!Number.isInteger(replicas) || replicas < 0) wrong(`replicas takes a number, not ${String(replicas)}`);
  const isShort = fixed || atMost <= given;
  const lease = time("lease", Math.min(given, fixed ? given : atMost), isShort ? 1 : leastKept);
  const keep = isShort ? 0 : time("keep", options.keep ?? defaults.keep ?? 30_000, LEAST_KEPT);
  return { wait, lease, keep, atMost, owner, replicas };
}

/** This process, to who looks at a lock. */
const here = `${hostname()}:${process.pid}`;

/** An owner that nobody has had before. */
export function freshOwner(service: string): string {
  const unique = `:${randomUUID()}`;
  const who = `${service}:${here}`.replace(/[^\x21-\x7e]/g, "_");
  return who.slice(0, 256 - unique.length) + unique;
}
