/** Leader election. */

import { setTimeout as pause } from "node:timers/promises";
import { LockLost, LockUnavailable } from "./errors.ts";
import type { Grant } from "./grant.ts";
import type { Lock } from "./lock.ts";
import { pauseAfter } from "./time.ts";

/** Works whenever it holds the lock, until the signal is aborted, the work fails by itself, or the lock is refused. */
export async function lead(lock: Lock, work: (grant: Grant) => unknown, signal: AbortSignal | undefined): Promise<void> {
  for (let tries = 1; !signal?.aborted; tries += 1) {
    let failure: unknown; // of the work, by itself
    try {
      await lock.run(async (grant) => {
        tries = 1;
        const end = (): void => grant.abort(signal?.reason);
        if (signal?.aborted) end();
        signal?.addEventListener("abort", end);
        try {
          await work(grant);
        } catch (error) {
          if (grant.lost && isOf(error, grant.lost)) throw grant.lost;
          throw (failure = error);
        } finally {
          signal?.removeEventListener("abort", end);
        }
      }, { wait: Infinity, signal });
    } catch (error) {
      if (signal?.aborted && isOf(error, signal.reason)) return;
      if (error === failure || !(error instanceof LockLost || error instanceof LockUnavailable)) throw error;
    }
    await pause(pauseAfter(tries), undefined, { signal }).catch(() => {}); // the signal ends it
  }
}

/** Whether an error only says that a signal was aborted for this reason. */
function isOf(error: unknown, reason: unknown): boolean {
  return error === reason || (error instanceof Error && error.name === "AbortError" && (error.cause ?? reason) === reason);
}
