/** The API of node-redlock 5 on locks that are fair, kept by the server, and fenced. */

import { EventEmitter } from "node:events";
import { endClient } from "../client.ts";
import { LockBusy, LockLost, LockUnavailable } from "../errors.ts";
import type { Grant } from "../grant.ts";
import { YEARS } from "../options.ts";
import { inOrder } from "../recipes.ts";
import { Stop } from "../stop.ts";
import { now } from "../time.ts";
import { type RedlockClient, type Source, sourceOf } from "./clients.ts";
import { ExecutionError, type ExecutionResult } from "./errors.ts";
import { Lock } from "./lock.ts";
import { type Settings, attemptsOf, pauseOf, settingsOf, windowOf } from "./settings.ts";
import { Ballot, isForeign } from "./votes.ts";

/** Aborted when the lock is lost, with what went wrong in `error`. */
export type RedlockAbortSignal = AbortSignal & { error?: Error };
/** What is done under a lock. */
export type Routine<T> = (signal: RedlockAbortSignal) => Promise<T>;

/** The least lease that the server keeps, in ms. */
const LEAST_KEPT = 1000;

/** What stands behind a lock. */
interface Held {
  readonly grants: readonly Grant[];
  readonly ballot: Ballot;
  /** Whether the lock was made by hand, of what another process has told: it is let go of after each operation. */
  readonly isByHand?: boolean;
}

export class Redlock extends EventEmitter {
  readonly clients: Set<RedlockClient>;
  readonly settings: Settings;
  readonly #clients: readonly RedlockClient[];
  readonly #held = new WeakMap<Lock, Held>();

  /** The third argument of node-redlock, its scripts, is not used. */
  constructor(clients: Iterable<RedlockClient>, settings: Partial<Settings> = {}, _scripts?: unknown) {
    super();
    this.on("error", () => {}); // errors of a minority are for those who want to hear of them
    this.clients = new Set(clients);
    this.#clients = [...this.clients];
    if (this.#clients.length === 0) throw new Error("Redlock must be instantiated with at least one redis client.");
    this.settings = settingsOf(settings);
  }

  /** Gives back what is held, and ends the clients. */
  async quit(): Promise<void> {
    await this.#source.close();
    await Promise.all(this.#clients.map(endClient));
  }

  /**
   * Takes all resources for `duration` ms, in one order wherever that is done, or none. Rejects with ExecutionError when
   * the time that the settings allow is over.
   */
  async acquire(resources: string[], duration: number, settings?: Partial<Settings>): Promise<Lock> {
    mustBeInteger(duration);
    return this.#acquire(resources, duration, this.#settingsOf(settings), true);
  }

  /** Gives the lock back. Rejects with ExecutionError where it was lost before, or too few clients answer. */
  async release(lock: Lock, _settings?: Partial<Settings>): Promise<ExecutionResult> {
    lock.expiration = 0;
    const start = Date.now();
    return this.#with(lock, async ({ grants, ballot }) => {
      const all = await Promise.allSettled(grants.map((grant) => grant.release()));
      const failed = all.find((it) => it.status === "rejected");
      if (failed) throw ballot.failed(failed.reason);
      return { attempts: [ballot.stats()], start };
    });
  }

  /** The lock for so long from now on, as a new object; the given one is over. */
  async extend(existing: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    mustBeInteger(duration);
    if (existing.expiration < Date.now()) throw new ExecutionError("Cannot extend an already-expired lock.", []);
    const all = this.#settingsOf(settings);
    return this.#with(existing, async (held) => {
      const { grants, ballot } = held;
      const end = now() + windowOf(all);
      for (;;) {
        try {
          await Promise.all(grants.map((grant) => grant.extend(Math.min(duration, YEARS), { fixed: true })));
          break;
        } catch (error) {
          if (!(error instanceof LockUnavailable) || now() >= end) throw ballot.failed(error);
          await new Stop().pause(pauseOf(all), end);
        }
      }
      existing.expiration = 0;
      return this.#lockOf(existing.resources, held, duration, all);
    });
  }

  /**
   * Does the work under a lock that holds for as long as that takes, and gives its result. Where the lock is lost, the
   * signal is aborted, and tells why in `error`.
   */
  async using<T>(resources: string[], duration: number, settings: Partial<Settings>, routine?: Routine<T>): Promise<T>;
  async using<T>(resources: string[], duration: number, routine: Routine<T>): Promise<T>;
  async using<T>(resources: string[], duration: number, settingsOrRoutine: Partial<Settings> | Routine<T> | undefined,
    optional?: Routine<T>): Promise<T> {
    mustBeInteger(duration);
    const settings = this.#settingsOf(typeof settingsOrRoutine === "object" ? settingsOrRoutine : undefined);
    const routine = optional ?? settingsOrRoutine;
    if (typeof routine !== "function") throw new Error("INVARIANT: routine is not a function.");
    if (settings.automaticExtensionThreshold > duration - 100) {
      throw new Error("A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.");
    }
    const controller = new AbortController();
    const signal = controller.signal as RedlockAbortSignal;
    const lock = await this.#acquire(resources, duration, settings, false);
    for (const grant of this.#held.get(lock)?.grants ?? []) {
      grant.onLost((loss) => {
        signal.error ??= this.#ballot(resources).failed(loss);
        controller.abort();
      });
    }
    let result: T;
    try {
      result = await routine(signal);
    } catch (error) {
      await lock.release().catch(() => {}); // the error of the work is what is told
      throw error;
    }
    await lock.release();
    return result;
  }

  get #source(): Source {
    return sourceOf(this.#clients);
  }

  #settingsOf(settings: Partial<Settings> = {}): Settings {
    return settingsOf(settings, this.settings);
  }

  #ballot(resources: readonly string[]): Ballot {
    return new Ballot(this.#clients, resources.length, (error) => this.emit("error", error));
  }

  /** Waits in line for the time in which node-redlock asks again and again. */
  async #acquire(resources: string[], duration: number, settings: Settings, fixed: boolean): Promise<Lock> {
    const ballot = this.#ballot(resources);
    const end = now() + windowOf(settings);
    for (;;) {
      try {
        const grants = await this.#take(resources, Math.min(duration, YEARS), Math.max(0, end - now()), fixed, ballot);
        return this.#lockOf(resources, { grants, ballot }, duration, settings);
      } catch (error) {
        const mayChange = error instanceof LockBusy || error instanceof LockUnavailable || isForeign(error);
        if (mayChange && now() < end) {
          await new Stop().pause(pauseOf(settings), end); // what is no lock has no line
          continue;
        }
        const attempts = attemptsOf(settings);
        throw ballot.failed(error, mayChange && attempts < Infinity ? attempts : 1);
      }
    }
  }

  async #take(resources: readonly string[], lease: number, wait: number, fixed: boolean, ballot: Ballot): Promise<Grant[]> {
    const locks = this.#source.forOne(ballot);
    ballot.begin();
    const [only] = resources;
    if (only !== undefined && fixed && resources.length === 1) return [await locks.lock(only, { lease, fixed, wait }).acquire()];
    // What was taken first must not end while another is waited for: it is kept until all are there.
    const grants = await inOrder(locks, resources, { lease: Math.max(lease, LEAST_KEPT), wait });
    try {
      if (fixed) await Promise.all(grants.map((grant) => grant.extend(lease, { fixed })));
      return grants;
    } catch (error) {
      await Promise.allSettled(grants.map((grant) => grant.release()));
      throw error;
    }
  }

  #lockOf(resources: string[], held: Held, duration: number, { driftFactor }: Settings): Lock {
    const { grants, ballot } = held;
    const lease = Math.min(duration, YEARS);
    const remaining = Math.min(lease, ...grants.map((grant) => grant.remaining));
    const drift = Math.round(driftFactor * lease) + 2;
    const value = [...new Set(grants.map(({ owner }) => owner))].join(" ");
    const tokens = new Map(grants.map(({ key, token }) => [key, token]));
    const lock = new Lock(this, resources, value, [ballot.stats()], Math.floor(Date.now() + remaining - drift), tokens);
    if (!held.isByHand) this.#held.set(lock, held);
    return lock;
  }

  /** Does this with what stands behind the lock. One that was made by hand is found by its value. */
  async #with<T>(lock: Lock, operate: (held: Held) => Promise<T>): Promise<T> {
    const known = this.#held.get(lock);
    known?.ballot.begin();
    if (known) return operate(known);
    const ballot = this.#ballot(lock.resources);
    const grants: Grant[] = [];
    try {
      for (const resource of new Set(lock.resources)) {
        const grant = await this.#source.adopt(resource, lock.value);
        if (!grant) throw new LockLost(`${resource}: not held by this lock`, { key: resource });
        grants.push(grant);
      }
      return await operate({ grants, ballot, isByHand: true });
    } catch (error) {
      throw error instanceof ExecutionError ? error : ballot.failed(error);
    } finally {
      for (const grant of grants) if (grant.held) await grant.detach().catch(() => {});
    }
  }
}

function mustBeInteger(duration: number): void {
  if (Math.floor(duration) !== duration) throw new Error("Duration must be an integer value in milliseconds.");
}
