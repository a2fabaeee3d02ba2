/** The errors of this package. Each names the lock, the words of the server or the network, and what to do. */

/**
 * Any error of this package; its class says which. The message names the lock, what the server or the network said, and what
 * to do.
 *
 * @example
 * ```ts
 * import { LockBusy, LockError, LockLost } from "redis-lock-client";
 *
 * try {
 *   await locks.lock("lock:orders:42", { wait: 2000 }).run((grant) => pay(grant.token));
 * } catch (error) {
 *   if (error instanceof LockBusy) answer(409); // others hold it
 *   else if (error instanceof LockLost) answer(500, error.reason); // others may have had it while `pay` worked
 *   else if (error instanceof LockError) answer(503, error.cause);
 *   else throw error; // of `pay`
 * }
 * ```
 */
export class LockError extends Error {
  /** The key of the lock, where the error is about one. */
  readonly key: string | undefined;

  /** Of this package; make one in unit tests only. */
  constructor(message: string, { key, cause }: { key?: string | undefined; cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.key = key;
  }
}

/**
 * Other owners hold the lock or wait for it, and the time to wait is over.
 *
 * @see {@link LockError} for an example
 */
export class LockBusy extends LockError {}
/**
 * The grant ended before its holder released it: stop the work under the lock.
 *
 * @see {@link LockError} for an example
 */
export class LockLost extends LockError {
  /** Why it was lost: one word or a few. */
  readonly reason: string;

  /** Of this package; make one in unit tests only. */
  constructor(message: string, { reason = "", ...options }: { key?: string; cause?: unknown; reason?: string } = {}) {
    super(message, options);
    this.reason = reason;
  }
}
/**
 * Waiting would create a deadlock cycle: release another lock of the task first.
 *
 * @see {@link Task}: only the locks of a task can be in a cycle
 */
export class LockDeadlock extends LockError {}
/**
 * A task that shares the lock wants it alone, but others share it, too: release it first, then acquire it.
 *
 * @see {@link LockError} for an example
 */
export class LockNotAlone extends LockError {}
/**
 * The server refuses: no right, wrong password, memory full, a limit is reached, the module is not loaded.
 *
 * @see {@link LockError} for an example
 */
export class LockRefused extends LockError {}
/**
 * No answer, or only passing errors, until the time was over. The last one is the `cause`. The call may have been carried
 * out all the same.
 *
 * @see {@link LockError} for an example
 */
export class LockUnavailable extends LockError {}
/**
 * A wrong argument, a key of another type, a second release, closed locks.
 *
 * @see {@link LockError} for an example
 */
export class LockMisuse extends LockError {}

const names = { LockError, LockBusy, LockLost, LockDeadlock, LockNotAlone, LockRefused, LockUnavailable, LockMisuse };
for (const [name, { prototype }] of Object.entries(names)) {
  Object.defineProperty(prototype, "name", { value: name, configurable: true, writable: true });
}

/** Adds an error of the lock to one of the work, which stays what is thrown. */
export function attach(error: unknown, more: unknown): void {
  if (error instanceof Error && error !== more && error.cause === undefined && Object.isExtensible(error)) {
    Object.defineProperty(error, "cause", { value: more, configurable: true, writable: true, enumerable: false });
  }
}
