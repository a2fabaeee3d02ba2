/** What users can say of their locks. */

import { hostname } from "node:os";
import { basename } from "node:path";
import { type LockLost, LockMisuse } from "./errors.ts";
import { LEAST_LEASE, type Terms, type Words } from "./state/claim.ts";
import { now } from "./time.ts";

/**
 * How a lock is acquired. All times are in milliseconds. A wrong value throws {@link LockMisuse}.
 *
 * @example
 * ```ts
 * const lock = locks.lock("lock:report", {
 *   wait: 10_000,
 *   signal: AbortSignal.timeout(15_000), // of the request, say
 *   maxHold: 60_000,
 * });
 * await lock.run(({ token, signal }) => report(token, signal));
 * ```
 */
export interface LockOptions {
  /** How long to wait in line: without a limit by default. 0: do not wait. */
  readonly wait?: number | undefined;
  /** Ends the acquire, which then neither holds nor waits, and rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** A fixed lease, at least 1: the whole life of the grant, unless `extend` renews it. None by default. */
  readonly fixed?: number | undefined;
  /** The lock is lost after so long, at least 1: without a limit by default. */
  readonly maxHold?: number | undefined;
}

/**
 * Options of a {@link Locks} or {@link QuorumLocks}. All times are in milliseconds. A wrong value throws {@link LockMisuse}.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { Locks } from "redis-lock-client";
 *
 * const locks = new Locks(new Redis(), {
 *   service: "orders",
 *   prefix: "shop:",
 *   lease: 20_000,
 *   observer: { lost: (key, loss) => console.error(key, loss.reason) },
 * });
 * ```
 */
export interface LocksOptions {
  /** Begins each owner and names the session, so that an operator sees whose a lock is: the name of the program. */
  readonly service?: string | undefined;
  /** Begins the key of each lock: by default what the client puts before its keys. */
  readonly prefix?: string | undefined;
  /** How long others wait for a lock when this process has died: 10 s by default, at least 1 s. */
  readonly lease?: number | undefined;
  /** How long the process may be suspended and keep its locks: 30 s by default, at least 1 s. */
  readonly silence?: number | undefined;
  /** How long a reply may take, connecting included: 1 s by default, at least 1 ms. */
  readonly replyTimeout?: number | undefined;
  /** Is notified of what happens. `redis-lock-client/otel` has one for OpenTelemetry. */
  readonly observer?: Observer | undefined;
}

/**
 * Is notified of what happens to locks, for metrics. Times are in milliseconds, and keys have the prefix. An error of a
 * function is ignored.
 *
 * @example
 * ```ts
 * import { Locks, type Observer } from "redis-lock-client";
 * import { TestServer } from "redis-lock-client/testing";
 *
 * const observer: Observer = {
 *   acquired: (key, ms, error) => console.log(key, error ? "not granted" : "granted", "after", ms),
 *   lost: (key, loss) => console.error(key, loss.reason),
 * };
 * const locks = new Locks(new TestServer(), { observer });
 * ```
 */
export interface Observer {
  /** An acquire has ended after this time, its wait included; without an error the lock was granted. */
  acquired?(key: string, ms: number, error?: unknown): void;
  /** A release has ended. The lock was held for this time; without an error to the end. */
  released?(key: string, ms: number, error?: unknown): void;
  /** A grant ended before its holder released it. */
  lost?(key: string, loss: LockLost): void;
  /** The connection of the session at this server has broken; without an error it is back, or not needed any more. */
  connection?(server: string, error?: unknown): void;
}

/** Throws unless the value is a time of at least so many ms. */
export function time(name: string, value: number, least: number): number {
  if (typeof value === "number" && value >= least) return value;
  throw new LockMisuse(`${name} must be a time of at least ${least} ms, not ${String(value)}`);
}

export function checkKey(key: unknown): string {
  if (typeof key === "string" && key !== "") return key;
  throw new LockMisuse("a key must be a string that is not empty");
}

/** The words for a semaphore of so many permits. */
export function permits(of: unknown): Words {
  if (typeof of === "number" && Number.isInteger(of) && of >= 1 && of < 2 ** 31) return ["LIMIT", of];
  throw new LockMisuse(`of takes 1 to 2^31 - 1, not ${String(of)}`);
}

/** The terms with these options instead. */
export function termsOf(terms: Terms, options: LockOptions): Terms {
  const { wait = terms.wait, fixed, maxHold = terms.maxHold, signal = terms.signal } = options;
  time("wait", wait, 0);
  time("fixed", fixed ?? terms.lease, 1);
  time("maxHold", maxHold, 1);
  return { ...terms, wait, maxHold, signal, ...(fixed !== undefined && { lease: fixed, isFixed: true }) };
}

/** The options of a `Locks`, in full. */
export interface Settings extends Pick<LocksOptions, "observer"> {
  readonly service: string;
  readonly lease: number;
  readonly silence: number;
  readonly replyTimeout: number;
}

export function settingsOf({ service, lease = 10_000, silence = 30_000, replyTimeout = 1000, observer }: LocksOptions): Settings {
  time("lease", lease, LEAST_LEASE);
  time("silence", silence, LEAST_LEASE);
  time("replyTimeout", replyTimeout, 1);
  return { service: service ?? (basename(process.argv[1] ?? "") || "node"), lease, silence, replyTimeout, observer };
}

/** What begins each owner of this process, as operators see it. */
export function processName(service: string): string {
  const part = (text: string): string => text.replace(/[^\x21-\x7e]/g, "_").slice(0, 80);
  const unique = Buffer.from(crypto.getRandomValues(new Uint8Array(9))).toString("hex");
  return `${part(service)}:${part(hostname())}:${process.pid}:${unique}`;
}

/** Notifies the observer of the outcome of a call, and of the time since `begun`. Returns the call. */
export function observed<T>(what: "acquired" | "released", observer: Observer | undefined, key: string, call: Promise<T>,
  begun: number): Promise<T> {
  if (observer?.[what]) {
    const end = (error?: unknown): void => guard(() => observer[what]?.(key, now() - begun, error));
    call.then(() => end(), end);
  }
  return call;
}

/** Calls what the user gave, whose errors concern nobody here. */
export function guard(call: () => unknown): void {
  try {
    (call() as Partial<Promise<unknown>> | undefined)?.catch?.(() => {});
  } catch {
    // Its author is to be told by other means.
  }
}
