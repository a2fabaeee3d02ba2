/** What ends a call early: the user's signal, the closing of the locks, a time limit. */

import { later, now } from "./time.ts";

/** Tells that a time limit has passed; never shown to users. */
export class TimeUp extends Error {
  override readonly name = "TimeUp";
}

/** Can be stopped once, with a reason. Unlike an AbortSignal it leaves no listener behind. */
export class Stop {
  #listeners = new Set<() => void>();
  #reason: { readonly is: unknown } | undefined;
  #unbind: (() => void) | undefined;

  /** Follows the user's signal until `end`. */
  constructor(signal?: AbortSignal) {
    if (!signal) return;
    const stop = (): void => this.stop(signal.reason);
    if (signal.aborted) {
      stop();
    } else {
      signal.addEventListener("abort", stop, { once: true });
      this.#unbind = () => signal.removeEventListener("abort", stop);
    }
  }

  get stopped(): boolean {
    return this.#reason !== undefined;
  }

  stop(reason: unknown): void {
    if (this.#reason) return;
    this.#reason = { is: reason };
    this.end();
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener();
  }

  /** The signal is not followed any more. */
  end(): void {
    this.#unbind?.();
    this.#unbind = undefined;
  }

  throwIfStopped(): void {
    if (this.#reason) throw this.#reason.is;
  }

  /** Settles as the promise does; rejects before that when stopped, or with TimeUp at `until`. */
  race<T>(promise: Promise<T>, until = Infinity): Promise<T> {
    if (this.#reason) {
      promise.catch(() => {});
      return Promise.reject(this.#reason.is);
    }
    return new Promise<T>((resolve, reject) => {
      const stopped = (): void => {
        timer?.cancel();
        reject(this.#reason?.is);
      };
      const done = (): void => {
        this.#listeners.delete(stopped);
        timer?.cancel();
      };
      const timer = until < Infinity
        ? later(until - now(), () => { done(); reject(new TimeUp("time is up")); }, { ref: true })
        : undefined;
      this.#listeners.add(stopped);
      promise.then(
        (value) => { done(); resolve(value); },
        (error: unknown) => { done(); reject(error); },
      );
    });
  }

  /** A pause that a stop ends, too. */
  async pause(ms: number, until = Infinity): Promise<void> {
    let timer: { cancel(): void } | undefined;
    const pause = new Promise<void>((resolve) => {
      timer = later(Math.max(0, Math.min(ms, until - now())), resolve, { ref: true });
    });
    try {
      await this.race(pause);
    } finally {
      timer?.cancel();
    }
  }
}
