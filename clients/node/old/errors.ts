/** The errors of this package: one family, with what caused an error in its `cause`. */

/** Any error of this package. The classes below say which. */
export class LockError extends Error {
  /** The key of the lock, where the error is about one. */
  readonly key: string | undefined;

  constructor(message: string, options: { key?: string | undefined; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.key = options.key;
  }
}

/** Others hold the lock, or are in line for it, and the time to wait is over. */
export class LockBusy extends LockError {}
/** The grant has ended otherwise than by its release, or nothing is known of it any more. */
export class LockLost extends LockError {}
/** Waiting would create a deadlock cycle. Release what the task holds, and begin again. */
export class LockDeadlock extends LockError {}
/** The lock has more holders than the call bears. */
export class LockNotAlone extends LockError {}
/** The server refuses: no right, wrong password, memory full, no module. */
export class LockRefused extends LockError {}
/** The server could not be reached, or gave no answer, in time. */
export class LockUnavailable extends LockError {}
/** A wrong argument, a key of another type, closed locks, a release without a hold. */
export class LockMisuse extends LockError {}

const names = { LockError, LockBusy, LockLost, LockDeadlock, LockNotAlone, LockRefused, LockUnavailable, LockMisuse };
for (const [name, { prototype }] of Object.entries(names)) {
  Object.defineProperty(prototype, "name", { value: name, configurable: true, writable: true });
}

/** An error reply of the server. */
export class ServerReply extends Error {
  override readonly name = "ServerReply";

  /** The server says that it is not the primary any more, or was none at that moment. */
  get isOfReplica(): boolean {
    return /^(READONLY|MASTERDOWN|UNBLOCKED)/.test(this.message);
  }
}

/** The connection has closed, or could not be opened, before a reply came. */
export class NoReply extends Error {
  override readonly name = "NoReply";
}

/** The kinds of calls, for what an error reply means. */
export type Kind = "acquire" | "renew" | "release";
/** What an error reply means. */
export type Class = "lost" | "misuse" | "not-alone" | "deadlock" | "refused" | "passing";

const always = (it: Class): readonly [Class, Class, Class] => [it, it, it];

/** What begins an error reply, and what it means to an acquire, a renewal and a release: the first that fits counts. */
const MEANINGS: readonly (readonly [string, readonly [Class, Class, Class]])[] = [
  ["NOTHELD", always("lost")],
  ["NOTOWNER", always("lost")],
  ["FENCED", always("lost")],
  ["WRONGTYPE", ["misuse", "lost", "lost"]],
  ["NOTALONE", ["not-alone", "not-alone", "misuse"]],
  ["DEADLOCK", ["deadlock", "misuse", "misuse"]],
  ["MAXWAITERS", always("refused")],
  ["OOM", always("refused")],
  ["NOPERM", ["refused", "passing", "refused"]],
  ["NOAUTH", ["refused", "passing", "refused"]],
  ["WRONGPASS", ["refused", "passing", "refused"]],
  ["DENIED", ["refused", "passing", "refused"]],
  ["NOPROTO", ["refused", "passing", "refused"]],
  ["AHEAD", always("refused")],
  ["ERR unknown command", always("refused")],
  ["ERR invalid password", ["refused", "passing", "refused"]],
  ["ERR AUTH", ["refused", "passing", "refused"]],
  ["ERR Protocol error: unauthenticated", ["refused", "passing", "refused"]],
  ["ERR KEEP needs the command CLIENT", always("refused")],
  ["ERR no fencing token is left", always("refused")],
  ["ERR a fault inside the module", ["refused", "passing", "refused"]],
  ["ERR max number of clients", always("passing")],
  ["ERR", always("misuse")],
  ["CROSSSLOT", always("misuse")],
  ["LOADING", always("passing")],
  ["BUSY", always("passing")],
  ["NOREPLICAS", always("passing")],
  ["MISCONF", always("passing")],
  ["READONLY", always("passing")],
  ["MASTERDOWN", always("passing")],
  ["UNBLOCKED", always("passing")],
  ["CLUSTERDOWN", always("passing")],
  ["TRYAGAIN", always("passing")],
  ["MOVED", always("passing")],
  ["ASK", always("passing")],
  ["REDIRECT", always("passing")],
];

/** What an error reply to such a call means. */
export function meaning(text: string, kind: Kind): Class {
  const [, [acquire, renew, release]] = MEANINGS.find(([begins]) => text.startsWith(begins)) ?? ["", always("misuse")];
  return { acquire, renew, release }[kind];
}

const CLASSES = {
  lost: LockLost,
  misuse: LockMisuse,
  "not-alone": LockNotAlone,
  deadlock: LockDeadlock,
  refused: LockRefused,
  passing: LockUnavailable,
};

/** The error that users get for an error reply. */
export function errorOf(reply: ServerReply, kind: Kind, key?: string): LockError {
  const hint = reply.message.startsWith("ERR unknown command") ? " (is the module lock loaded?)" : "";
  const message = `${key === undefined ? "" : `${key}: `}${reply.message}${hint}`;
  return new CLASSES[meaning(reply.message, kind)](message, { key, cause: reply });
}

/** Adds what else went wrong to an error of the work, which stays what is thrown. */
export function attach(error: unknown, more: LockError): void {
  if (error instanceof Error && error !== more && error.cause === undefined && Object.isExtensible(error)) {
    Object.defineProperty(error, "cause", { value: more, configurable: true, writable: true, enumerable: false });
  }
}
