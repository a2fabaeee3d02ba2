/** The errors of this package. Each names the lock, the words of the server or the network, and what to do. */

/** Any error of this package. The classes below say which. */
export class LockError extends Error {
  /** The key of the lock, where the error is about one. */
  readonly key: string | undefined;

  constructor(message: string, { key, cause }: { key?: string | undefined; cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.key = key;
  }
}

/** Other owners hold the lock or wait for it, and the time to wait is over. */
export class LockBusy extends LockError {}
/** The grant ended otherwise than by its release: stop the work under the lock. */
export class LockLost extends LockError {
  /** Why it was lost: one word or a few. */
  readonly reason: string;

  constructor(message: string, { reason = "", ...options }: { key?: string; cause?: unknown; reason?: string } = {}) {
    super(message, options);
    this.reason = reason;
  }
}
/** Waiting would create a deadlock cycle: release another lock of the task first. */
export class LockDeadlock extends LockError {}
/** The lock has more holders than the call allows: release it first, then acquire it. */
export class LockNotAlone extends LockError {}
/** The server refuses: no right, wrong password, memory full, a limit is reached, the module is not loaded. */
export class LockRefused extends LockError {}
/** No answer, or only passing errors, until the time was over. The last one is the `cause`. */
export class LockUnavailable extends LockError {}
/** A wrong argument, a key of another type, a second release, closed locks. */
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
