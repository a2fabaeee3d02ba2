/** What is built from locks: several at once, a leader, work that is done once. */

import { LockBusy, LockLost, LockUnavailable } from "./errors.ts";
import type { Grant } from "./grant.ts";
import { type Lock, runUnder } from "./lock.ts";
import type { Locks } from "./locks.ts";
import type { LockOptions } from "./options.ts";
import { Stop } from "./stop.ts";
import { Pace, now } from "./time.ts";

/** Whatever has locks: a `Locks`, a task or a quorum. */
export interface Source<Options extends LockOptions> {
  lock(key: string, options?: Options): Lock<Options>;
}

/** Takes all of them, in one order wherever that is done, or none; `wait` is for all together. */
export async function inOrder<Options extends LockOptions>(source: Source<Options>, keys: readonly string[],
  options: Options): Promise<Grant[]> {
  const until = now() + (options.wait ?? 0);
  const grants: Grant[] = [];
  try {
    for (const key of [...new Set(keys)].sort()) {
      grants.push(await source.lock(key, { ...options, wait: Math.max(0, until - now()) }).acquire());
    }
    const lost = grants.find(({ held }) => !held); // while the others were waited for
    if (lost) throw lost.signal.reason;
    return grants;
  } catch (error) {
    await Promise.all(grants.reverse().map((grant) => grant[Symbol.asyncDispose]()));
    throw error;
  }
}

/** Works whenever it holds the lock, until the signal is aborted, the work fails, or the lock is refused. */
export async function leadBy<Options extends LockOptions>(source: Source<Options>, key: string, work: (grant: Grant) => unknown,
  options: Options & { readonly signal: AbortSignal }): Promise<void> {
  const { signal } = options;
  const stop = new Stop(signal);
  const pace = new Pace();
  try {
    while (!signal.aborted) {
      let failure: { readonly error: unknown } | undefined; // of the work
      try {
        await source.lock(key, { ...options, wait: Infinity }).run(async (grant) => {
          pace.reset();
          try {
            await work(grant);
          } catch (error) {
            if (error !== grant.signal.reason) failure = { error };
            throw error;
          }
        });
      } catch (error) {
        if (signal.aborted && (error === signal.reason || (error instanceof Error && error.name === "AbortError"))) return;
        if (error === (failure as { readonly error: unknown } | undefined)?.error) throw error;
        if (!(error instanceof LockLost || error instanceof LockUnavailable)) throw error;
        if (error instanceof LockUnavailable) await stop.pause(pace.next(), Infinity).catch(() => {});
      }
    }
  } finally {
    stop.end();
  }
}

/** Gives what `look` finds; where it finds nothing, one of all who ask does the work, and the others wait for it. */
export async function once<T>(locks: Locks, key: string, look: () => Promise<T | undefined>, work: (grant: Grant) => Promise<T>,
  options: LockOptions): Promise<T> {
  const until = now() + (options.wait ?? 0);
  const left = (): number => Math.max(0, until - now());
  // Who has shared it once and found nothing waits to have it alone: others may share it for another end.
  for (let hasShared = false; ; hasShared = true) {
    const found = await look();
    if (found !== undefined) return found;
    const grant = await locks.lock(key, options).tryAcquire({ wait: hasShared ? left() : 0 });
    if (grant) return runUnder(grant, async () => (await look()) ?? work(grant));
    if (left() === 0) throw new LockBusy(`${key}: others do the work`, { key });
    const done = await locks.shared(key, options).acquire({ wait: left() });
    await done.release();
  }
}
