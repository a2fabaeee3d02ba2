/** Leader election. */

import { LockLost, LockUnavailable } from "./errors.ts";
import type { Grant } from "./grant.ts";
import type { Lock } from "./lock.ts";
import { Pauses, Sleeper } from "./time.ts";

/** Works whenever it holds the lock, until the signal is aborted, the work fails by itself, or the lock is refused. */
export async function lead(lock: Lock, work: (grant: Grant) => unknown, signal: AbortSignal | undefined): Promise<void> {
  const sleeper = new Sleeper();
  const wake = (): void => sleeper.wake();
  signal?.addEventListener("abort", wake);
  try {
    for (let pauses = new Pauses(); !signal?.aborted;) {
      let lost: LockLost | undefined;
      let failure: unknown; // of the work, by itself
      try {
        await lock.run(async (grant) => {
          pauses = new Pauses();
          try {
            await work(grant);
          } catch (error) {
            ({ lost } = grant);
            if (!lost || !isOf(error, lost)) failure = error;
            throw error;
          }
        }, { wait: Infinity, signal });
      } catch (error) {
        if (signal?.aborted && isOf(error, signal.reason)) return;
        if (error === failure || !(lost || error instanceof LockLost || error instanceof LockUnavailable)) throw error;
      }
      await sleeper.sleep(signal?.aborted ? 0 : pauses.next());
    }
  } finally {
    signal?.removeEventListener("abort", wake);
  }
}

/** Whether an error only says that a signal was aborted for this reason. */
function isOf(error: unknown, reason: unknown): boolean {
  return error === reason || (error instanceof Error && error.name === "AbortError" && (error.cause ?? reason) === reason);
}
