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

/** The times between tries: none at first, then from 50 ms growing to 1 s, with jitter. */
export class Pauses {
  #tries = 0;

  next(): number {
    this.#tries += 1;
    if (this.#tries === 1) return 0;
    return Math.min(50 * 2 ** (this.#tries - 2), 1000) * (0.5 + Math.random() / 2);
  }
}

/** A pause that can be ended early. */
export class Sleeper {
  #wake: (() => void) | undefined;

  wake(): void {
    this.#wake?.();
  }

  sleep(ms: number): Promise<void> {
    if (ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = ms < Infinity ? later(ms, () => this.wake()) : undefined;
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}
