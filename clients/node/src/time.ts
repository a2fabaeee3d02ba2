/** Time: in milliseconds, of the monotonic clock. */

/** The longest delay that Node's timers take: 24.8 days. */
const LONGEST_DELAY = 2 ** 31 - 1;

export const now = (): number => performance.now();

/**
 * Calls back after so long, and after what the sockets have received by then was read: a process that was suspended
 * finds its replies there.
 */
export function later(ms: number, callback: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(callback), Math.min(ms, LONGEST_DELAY));
}

/** The pause after so many tries: none after the first, then from 50 ms growing to 1 s, with jitter. */
export function pauseAfter(tries: number): number {
  return tries <= 1 ? 0 : Math.min(50 * 2 ** (tries - 2), 1000) * (0.5 + Math.random() / 2);
}

/** A pause that can be ended early. */
export class Sleeper {
  #wake: (() => void) | undefined;

  wake(): void {
    this.#wake?.();
  }

  /** An aborted signal ends it too. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms <= 0 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (this.#wake = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", wake);
        this.#wake = undefined;
        resolve();
      });
      const timer = ms < Infinity ? later(ms, wake) : undefined;
      signal?.addEventListener("abort", wake);
    });
  }
}
