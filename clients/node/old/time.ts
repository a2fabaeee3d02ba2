/** Time: always of the monotonic clock, in milliseconds. */

/** The longest delay that Node's timers take: 24.8 days. */
const LONGEST_DELAY = 2 ** 31 - 1;
/** A timer that comes later than this tells that the process stood still. */
const STOOD_STILL = 1000;

export const now = (): number => performance.now();

/** Something that can be called off. */
export interface Timer {
  cancel(): void;
}

/**
 * Calls back once, after any number of milliseconds, and not before what the sockets have received by then
 * has been read. A process that stood still gets `patience` more, for it has to be told what happened meanwhile.
 * Keeps no process alive, unless `ref` is set.
 */
export function later(ms: number, callback: () => void, { patience = 0, ref = false } = {}): Timer {
  const due = now() + Math.max(0, ms);
  let timer: NodeJS.Timeout | undefined;
  let immediate: NodeJS.Immediate | undefined;
  const arm = (delay: number): void => {
    timer = setTimeout(fire, Math.min(delay, LONGEST_DELAY));
    if (!ref) timer.unref();
  };
  const fire = (): void => {
    const late = now() - due;
    if (late < -1) {
      arm(-late);
    } else if (late > STOOD_STILL && patience > 0) {
      const more = patience;
      patience = 0;
      arm(more);
    } else {
      immediate = setImmediate(callback); // after the sockets were read
    }
  };
  if (ms < Infinity) arm(due - now());
  return {
    cancel() {
      clearTimeout(timer);
      clearImmediate(immediate);
    },
  };
}

/** Near a limit the pauses are no shorter than this. */
const SHORTEST = 20;

/** Pauses that grow from 50 ms to 1 s, with jitter. */
export class Pace {
  #next = 50;

  /** Before a limit they take no more than half of what is left: the last try needs time for its answer. */
  next(until = Infinity): number {
    const ms = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(1000, this.#next * 2);
    return Math.min(ms, Math.max(SHORTEST, (until - now()) / 2));
  }

  reset(): void {
    this.#next = 50;
  }
}
